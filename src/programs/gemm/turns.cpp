#include "programs/gemm/turns.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lib/base/statistics.h"

namespace gemm {

namespace {

constexpr double enough = 0.005;
constexpr std::size_t minimum_rounds = 8;
/// Student's t, 97.5 %, of one degree of freedom and more: few rounds say little about their own scatter.
constexpr double student[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201};

}  // namespace

Turns::Turns(std::size_t rivals) : seconds_(rivals) {
    if (rivals == 0) throw std::invalid_argument("turns of no rivals");
}

void Turns::round(const std::function<double(std::size_t)>& seconds) {
    std::vector<double> both(seconds_.size());
    for (std::size_t i = 0; i < both.size(); ++i) both[i] = seconds(i);
    for (std::size_t i = both.size(); i-- > 0;) both[i] += seconds(i);
    for (std::size_t i = 0; i < both.size(); ++i) seconds_[i].push_back(both[i] / 2);
}

std::vector<double> Turns::ratios(std::size_t one, std::size_t other) const {
    if (rounds() == 0) throw std::logic_error("a ratio before the first round");
    std::vector<double> found(rounds());
    for (std::size_t r = 0; r < found.size(); ++r) found[r] = seconds_[other][r] / seconds_[one][r];
    return found;
}

double Turns::ratio(std::size_t one, std::size_t other) const {
    return tenken::order_statistics(ratios(one, other), tenken::Direction::higher).median;
}

double Turns::uncertainty(std::size_t one, std::size_t other) const {
    const std::vector<double> each = ratios(one, other);
    if (each.size() < 2) return INFINITY;
    const double mean = tenken::order_statistics(each, tenken::Direction::higher).mean;
    double squares = 0;
    for (double value : each) squares += (value - mean) * (value - mean);
    const auto count = static_cast<double>(each.size());
    const double t = student[std::min(each.size() - 2, sizeof student / sizeof *student - 1)];
    return t * 1.2533 * std::sqrt(squares / (count - 1) / count);
}

std::size_t Turns::fastest() const {
    std::size_t found = 0;
    for (std::size_t i = 1; i < seconds_.size(); ++i) {
        if (ratio(i, found) > 1) found = i;
    }
    return found;
}

std::size_t Turns::best(std::size_t preferred) const {
    const std::size_t first = fastest();
    return ratio(first, preferred) - uncertainty(first, preferred) > 1 ? first : preferred;
}

double Turns::of_best(std::size_t own) const {
    double lowest = 1;
    for (std::size_t i = 0; i < seconds_.size(); ++i) lowest = std::min(lowest, ratio(own, i));
    return lowest;
}

bool Turns::settled(double precision) const {
    const std::size_t first = fastest();
    for (std::size_t i = 0; i < seconds_.size(); ++i) {
        if (i == first) continue;
        const double width = uncertainty(first, i);
        if (width > precision && ratio(first, i) - width < 1) return false;
    }
    return true;
}

Turns take_turns(std::size_t rivals, std::size_t maximum_rounds,
                 const std::function<double(std::size_t)>& seconds) {
    Turns turns(rivals);
    do turns.round(seconds);
    while (rivals > 1 &&
           (turns.rounds() < minimum_rounds || (turns.rounds() < maximum_rounds && !turns.settled(enough))));
    return turns;
}

}  // namespace gemm
