#include <stdexcept>

#include "lib/base/statistics.h"
#include "unit.h"

// The expected numbers are numpy.percentile(samples, 50).
TEST(the_median_is_numpys) {
    CHECK(tenken::median({4, 1, 3, 2}) == 2.5);
    CHECK(tenken::median({10, 30, 20}) == 20);
    CHECK(tenken::median({7}) == 7);
    CHECK(tenken::median({0.1, 0.2}) == 0.15000000000000002);
    CHECK(!unit::thrown<std::invalid_argument>([] { tenken::median({}); }).empty());
}
