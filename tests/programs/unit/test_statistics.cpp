#include <stdexcept>

#include "lib/base/statistics.h"
#include "unit.h"

using tenken::Direction;
using tenken::order_statistics;

// The expected numbers are numpy.percentile(samples, [5, 50, 95]).
TEST(order_statistics_are_numpys) {
    const tenken::Statistics even = order_statistics({4, 1, 3, 2}, Direction::higher);
    CHECK(even.best == 4);
    CHECK(even.median == 2.5);
    CHECK(even.p5 == 1.15);
    CHECK(even.p95 == 3.8499999999999996);
    CHECK(even.mean == 2.5);
    CHECK(even.count == 4);
    const tenken::Statistics odd = order_statistics({10, 30, 20}, Direction::lower);
    CHECK(odd.best == 10);
    CHECK(odd.median == 20);
    CHECK(odd.p5 == 11);
    CHECK(odd.p95 == 29);
}

TEST(one_sample_is_every_statistic) {
    const tenken::Statistics one = order_statistics({7}, Direction::higher);
    CHECK(one.best == 7 && one.median == 7 && one.p5 == 7 && one.p95 == 7 && one.count == 1);
}

TEST(no_sample_has_no_statistics) {
    CHECK(!unit::thrown<std::invalid_argument>([] { order_statistics({}, Direction::higher); }).empty());
    CHECK(!unit::thrown<std::invalid_argument>([] { tenken::percentile({1}, 101); }).empty());
}
