#include <cmath>
#include <cstdlib>
#include <limits>

#include "lib/base/json.h"
#include "unit.h"

using tenken::Json;
using tenken::shortest;

TEST(numbers_are_shortest_and_read_back) {
    CHECK_EQUAL(shortest(0.1), "0.1");
    CHECK_EQUAL(shortest(1.0 / 3.0), "0.3333333333333333");
    CHECK_EQUAL(shortest(0.1 + 0.2), "0.30000000000000004");
    CHECK_EQUAL(shortest(5e-324), "5e-324");
    CHECK_EQUAL(shortest(-0.0), "-0");
    CHECK_EQUAL(shortest(1e22), "1e+22");
    CHECK_EQUAL(Json(std::numeric_limits<std::uint64_t>::max()).dump(), "18446744073709551615");
    double value = 1.7976931348623157e308;
    for (int i = 0; i < 2000; ++i) {
        CHECK(std::strtod(shortest(value).c_str(), nullptr) == value);
        value /= 1.4142135623730951;
    }
}

TEST(what_is_not_finite_is_refused) {
    for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
        CHECK(!unit::thrown<tenken::NotFinite>([bad] { Json json(bad); }).empty());
    }
}

TEST(strings_are_escaped) {
    CHECK_EQUAL(tenken::quoted("a\"b\\c\n\t\x01"), "\"a\\\"b\\\\c\\n\\t\\u0001\"");
    CHECK_EQUAL(tenken::quoted("\xE7\x82\xB9\xE6\xA4\x9C"), "\"\xE7\x82\xB9\xE6\xA4\x9C\"");
    CHECK_EQUAL(tenken::quoted("a\xFF\xC3"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
    CHECK_EQUAL(tenken::quoted("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // a surrogate
}

TEST(objects_keep_order_and_replace_keys) {
    Json json = Json::object();
    json.set("b", 1).set("a", Json()).set("b", true).set("list", std::vector<int>{1, 2});
    CHECK_EQUAL(json.dump(), "{\"b\":true,\"a\":null,\"list\":[1,2]}");
    CHECK(!unit::thrown<std::logic_error>([&] { json.push(1); }).empty());
}
