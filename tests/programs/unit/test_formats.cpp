#include <cmath>
#include <limits>

#include "lib/base/formats.h"
#include "unit.h"

using tenken::decoded;
using tenken::encoded;
using tenken::rounded;
namespace formats = tenken::formats;

TEST(formats_know_their_numbers) {
    // IEEE 754 binary16 and the OCP specification's tables, by hand.
    CHECK(decoded(0x3c00, formats::fp16(), 5) == 1);
    CHECK(decoded(0x7bff, formats::fp16(), 5) == 65504);
    CHECK(decoded(0x0001, formats::fp16(), 5) == std::ldexp(1.0, -24));
    CHECK(decoded(0x7e, formats::e4m3(), 4) == 448);
    CHECK(decoded(0x08, formats::e4m3(), 4) == std::ldexp(1.0, -6));
    CHECK(decoded(0x01, formats::e4m3(), 4) == std::ldexp(1.0, -9));
    CHECK(decoded(0x7b, formats::e5m2(), 5) == 57344);
    CHECK(decoded(0x01, formats::e5m2(), 5) == std::ldexp(1.0, -16));
    const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (unsigned code = 0; code < 8; ++code) {
        CHECK(decoded(code, formats::e2m1(), 2) == e2m1[code]);
        CHECK(decoded(code + 8, formats::e2m1(), 2) == -e2m1[code]);
    }
    CHECK(decoded(0x3f80, formats::bf16(), 8) == 1);
}

TEST(every_number_of_a_format_is_encoded_as_it_was_decoded) {
    for (unsigned code = 1; code < 0x7c00; ++code) {
        const double value = decoded(code, formats::fp16(), 5);
        CHECK(encoded(value, formats::fp16(), 5) == code);
        CHECK(encoded(-value, formats::fp16(), 5) == (code | 0x8000u));
        CHECK(rounded(value, formats::fp16()) == value);
    }
    for (unsigned code = 1; code < 0x7f; ++code) {
        const double value = decoded(code, formats::e4m3(), 4);
        CHECK(encoded(value, formats::e4m3(), 4) == code && rounded(value, formats::e4m3()) == value);
    }
    for (unsigned code = 1; code < 0x7c; ++code)
        CHECK(encoded(decoded(code, formats::e5m2(), 5), formats::e5m2(), 5) == code);
}

TEST(rounding_takes_the_nearest_number_and_the_even_one_of_two) {
    // Between two neighbours a and b, by definition: closer to a, closer to b, and in the middle.
    for (unsigned code = 0; code < 0x7e; ++code) {
        const double a = decoded(code, formats::e4m3(), 4);
        const double b = decoded(code + 1, formats::e4m3(), 4);
        CHECK(rounded(a + 0.49 * (b - a), formats::e4m3()) == a);
        CHECK(rounded(a + 0.51 * (b - a), formats::e4m3()) == b);
        CHECK(rounded((a + b) / 2, formats::e4m3()) == (code % 2 == 0 ? a : b));
        CHECK(rounded(-(a + b) / 2, formats::e4m3()) == (code % 2 == 0 ? -a : -b));
    }
    CHECK(rounded(0.1, formats::fp16()) == 0.0999755859375);
    CHECK(rounded(1 + std::ldexp(1.0, -11), formats::tf32()) == 1);
    CHECK(rounded(1 + 3 * std::ldexp(1.0, -9), formats::bf16()) == 1 + std::ldexp(1.0, -7));
}

TEST(what_is_too_large_saturates_or_becomes_infinite) {
    CHECK(rounded(1e6, formats::e4m3()) == 448);
    CHECK(rounded(-1e6, formats::e5m2()) == -57344);
    CHECK(rounded(65519, formats::fp16()) == 65504);
    CHECK(std::isinf(rounded(65520, formats::fp16())));
    CHECK(std::isnan(rounded(std::numeric_limits<double>::quiet_NaN(), formats::fp16())));
    CHECK(rounded(std::ldexp(1.0, -26), formats::fp16()) == 0);
}
