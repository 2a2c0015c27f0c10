// Candidates on a GPU at its power cap, each alone for a while.
#include <cmath>
#include <stdexcept>
#include <vector>

#include "lib/base/stretches.h"
#include "unit.h"

using tenken::Stretches;

namespace {

/// Seconds of candidates whose rates are `rates`, while the clock drifts by `drift` from one measurement to
/// the next.
struct Gpu {
    std::vector<double> rates;
    double drift = 0;
    std::vector<std::size_t> measured{};

    double operator()(std::size_t i) {
        measured.push_back(i);
        return 1 / (rates[i] * (1 + drift * static_cast<double>(measured.size())));
    }
};

}  // namespace

TEST(a_rival_that_is_slower_beyond_doubt_has_one_stretch) {
    Gpu gpu{{51, 56, 55.9, 50}};
    Stretches stretches(4);
    stretches.run([&](std::size_t i) { return gpu(i); });
    CHECK(gpu.measured == (std::vector<std::size_t>{0, 1, 2, 3}));
    for (int i = 0; i < 2; ++i) stretches.again([&](std::size_t one) { return gpu(one); });
    CHECK(gpu.measured == (std::vector<std::size_t>{0, 1, 2, 3, 2, 1, 2, 1}));
    CHECK(stretches.best(0) == 1);
    CHECK(std::abs(stretches.of_best(0) - 51.0 / 56) < 1e-12 && stretches.of_best(1) == 1);
    CHECK(std::abs(stretches.ratio(1, 3) - 1.12) < 1e-12);
}

TEST(the_preferred_rival_stays_within_half_a_percent) {
    Gpu gpu{{0.996, 1.0, 0.994}};
    Stretches stretches(3);
    stretches.run([&](std::size_t i) { return gpu(i); });
    CHECK(stretches.best(0) == 0 && stretches.best(1) == 1 && stretches.best(2) == 1);
    CHECK(std::abs(stretches.of_best(0) - 0.996) < 1e-12);
}

TEST(a_gpu_that_warms_up_favours_none_of_those_that_are_close) {
    // in one direction only, the first would seem 2 % faster than the third
    Gpu gpu{{1, 1, 1}, -0.01};
    Stretches stretches(3);
    stretches.run([&](std::size_t i) { return gpu(i); });
    CHECK(stretches.of_best(2) < 0.99);
    stretches.again([&](std::size_t i) { return gpu(i); });
    for (std::size_t i = 0; i < 3; ++i) CHECK(stretches.of_best(i) > 0.999);
}

TEST(stretches_of_one_rival_and_of_none) {
    Gpu gpu{{2}};
    Stretches one(1);
    one.run([&](std::size_t i) { return gpu(i); });
    one.again([&](std::size_t i) { return gpu(i); });
    CHECK(gpu.measured.size() == 1 && one.best(0) == 0 && one.of_best(0) == 1);
    CHECK_EQUAL(unit::thrown<std::invalid_argument>([] { Stretches none(0); }), "stretches of no rivals");
    CHECK_EQUAL(unit::thrown<std::logic_error>([] { Stretches(2).ratio(0, 1); }),
                "a rate before the first stretch");
}
