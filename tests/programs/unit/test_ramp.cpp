// Where a series of rates reaches its plateau.
#include <stdexcept>

#include "lib/base/ramp.h"
#include "unit.h"

using tenken::find_ramp;
using tenken::Ramp;

TEST(ramp_of_a_flat_series_is_its_first_repetition) {
    const Ramp ramp = find_ramp(std::vector<double>(20, 3000));
    CHECK(ramp.repetition == 1 && ramp.before == 3000 && ramp.plateau == 3000 && !ramp.seen());
}

TEST(ramp_of_migration_by_parts) {
    std::vector<double> rates;
    for (int i = 0; i < 50; ++i) rates.push_back(400 + 52.0 * i);
    for (int i = 0; i < 150; ++i) rates.push_back(3000);
    const Ramp ramp = find_ramp(rates);
    // 0.95 x 3000 = 2850 is reached at 400 + 52 i, i = 48: the 49th repetition
    CHECK(ramp.repetition == 49 && ramp.plateau == 3000 && ramp.seen());
    CHECK(ramp.before == 400 + 52.0 * 23.5);
}

TEST(ramp_is_not_ended_by_a_lone_fast_repetition) {
    std::vector<double> rates(10, 400);
    rates[3] = 3000;
    rates.insert(rates.end(), 30, 3000);
    CHECK(find_ramp(rates).repetition == 11);
}

TEST(ramp_survives_a_dip_on_the_plateau) {
    std::vector<double> rates(40, 3000);
    rates[0] = 15;
    rates[20] = 100;
    const Ramp ramp = find_ramp(rates);
    CHECK(ramp.repetition == 2 && ramp.before == 15 && !ramp.seen());
}

TEST(ramp_of_one_and_of_no_rate) {
    CHECK(find_ramp({5}).repetition == 1);
    CHECK(unit::thrown<std::invalid_argument>([] { find_ramp({}); }) == "find_ramp: no rates");
}
