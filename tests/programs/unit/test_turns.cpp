// Rivals that are compared in turns while the clock moves.
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "programs/gemm/turns.h"
#include "unit.h"

using gemm::take_turns;
using gemm::Turns;

namespace {

/// Seconds of rivals whose rates are `rates`, on a card whose clock is `clock(n)` in the n-th measurement.
struct Card {
    std::vector<double> rates;
    double (*clock)(int);
    int measured = 0;

    double operator()(std::size_t i) { return 1 / (rates[i] * clock(measured++)); }
};

double steady(int) {
    return 1;
}
double recovering(int n) {
    return 0.8 + 0.008 * n;
}
/// 1 % of noise that no rule of even drifts can foretell.
double noisy(int n) {
    static std::minstd_rand random;
    if (n == 0) random.seed(20261122);
    return std::normal_distribution<double>(1, 0.01)(random);
}
/// Every fifth measurement is caught by the power cap.
double capped(int n) {
    return n % 5 == 3 ? 0.7 : 1;
}

}  // namespace

TEST(turns_on_a_steady_card_take_eight_rounds) {
    const Turns turns = take_turns(3, 12, Card{{1.0, 1.05, 0.99}, steady});
    CHECK(turns.rounds() == 8 && turns.best(0) == 1 && turns.best(2) == 1);
    CHECK(turns.of_best(1) == 1);
    CHECK(std::abs(turns.of_best(0) - 1 / 1.05) < 1e-12);
    CHECK(std::abs(turns.ratio(1, 2) - 1.05 / 0.99) < 1e-12);
}

TEST(turns_on_a_card_that_recovers_favour_none) {
    // one after the other the third would seem 3 % faster than the first
    const Turns turns = take_turns(4, 12, Card{{1.0, 1.0, 1.0, 1.0}, recovering});
    for (std::size_t i = 0; i < 4; ++i) CHECK(turns.of_best(i) > 0.999);
}

TEST(turns_go_on_while_the_best_is_in_doubt) {
    const Turns turns = take_turns(3, 12, Card{{1.0, 1.0, 0.9}, noisy});
    CHECK(turns.rounds() > 8 && turns.rounds() <= 12);
    CHECK(turns.of_best(0) > 0.975 && turns.of_best(1) > 0.975);
    CHECK(turns.of_best(2) < 0.93 && turns.of_best(2) > 0.87);
    // of two that are alike the preferred one stays; one that is slower beyond doubt does not
    CHECK(turns.best(0) == 0 && turns.best(1) == 1 && turns.best(2) != 2);
}

TEST(turns_that_the_power_cap_catches_now_and_then) {
    const Turns turns = take_turns(3, 12, Card{{1.0, 1.0, 1.0}, capped});
    for (std::size_t i = 0; i < 3; ++i) CHECK(turns.of_best(i) > 0.9);
    const Turns slow = take_turns(2, 12, Card{{1.0, 0.6}, capped});
    CHECK(slow.best(1) == 0 && slow.of_best(1) < 0.75);
}

TEST(turns_beside_the_swings_of_a_power_cap) {
    // once a second 20 % down, up again within 0.3 s: 20 ms a product, as of FP64 of 8192
    const auto swinging = [](int n) {
        const double into = 0.02 * (n % 50);
        return into < 0.3 ? 0.8 + 0.2 * into / 0.3 : 1.0;
    };
    const Turns turns = take_turns(3, 25, Card{{1.0, 0.998, 0.97}, swinging});
    CHECK(turns.of_best(0) > 0.995 && turns.of_best(1) > 0.99);
    CHECK(turns.of_best(2) < 0.98 && turns.of_best(2) > 0.96);
}

TEST(turns_of_one_rival_and_of_none) {
    CHECK(take_turns(1, 12, Card{{2.0}, noisy}).of_best(0) == 1);
    CHECK_EQUAL(unit::thrown<std::invalid_argument>([] { Turns none(0); }), "turns of no rivals");
    CHECK_EQUAL(unit::thrown<std::logic_error>([] { Turns(2).ratio(0, 1); }),
                "a ratio before the first round");
    Turns one(2);
    one.round(Card{{1, 2}, steady});
    CHECK(std::isinf(one.uncertainty(0, 1)) && !one.settled(0.005));
}
