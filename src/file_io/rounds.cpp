#include "file_io/rounds.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

#include "common/clock.h"
#include "common/statistics.h"

namespace file_io {

namespace {

double median_of(const std::vector<double>& values) {
    return tenken::order_statistics(values, tenken::Direction::lower).median;
}

/// Every other value, from the first or the second one on.
std::vector<double> half(const std::vector<double>& values, std::size_t from) {
    std::vector<double> part;
    for (std::size_t i = from; i < values.size(); i += 2) part.push_back(values[i]);
    return part;
}

}  // namespace

std::vector<std::vector<double>> run_rounds(std::size_t count, const Rounds& rounds,
                                            const std::function<double(std::size_t, long)>& one) {
    std::vector<std::vector<double>> seconds(count);
    std::vector<std::size_t> alive(count);
    std::iota(alive.begin(), alive.end(), std::size_t{0});
    std::mt19937 order(rounds.seed);
    for (std::size_t i : alive) one(i, 0);
    const double begin = tenken::now_seconds();
    for (long round = 1; round <= rounds.most; ++round) {
        if (round > rounds.least && tenken::now_seconds() - begin > rounds.seconds) break;
        std::shuffle(alive.begin(), alive.end(), order);
        for (std::size_t i : alive) seconds[i].push_back(one(i, round));
        if (round < 3 || rounds.keep <= 0) continue;
        double lowest = median_of(seconds[alive.front()]);
        for (std::size_t i : alive) lowest = std::min(lowest, median_of(seconds[i]));
        alive.erase(std::remove_if(alive.begin(), alive.end(),
                                   [&](std::size_t i) {
                                       // By its luckiest round: what disturbs a way only makes it slower.
                                       return *std::min_element(seconds[i].begin(), seconds[i].end()) *
                                                  rounds.keep >
                                              lowest;
                                   }),
                    alive.end());
    }
    return seconds;
}

std::size_t choose_lowest(const std::vector<double>& medians, std::size_t preferred, double tie) {
    if (medians.empty()) throw std::invalid_argument("choose_lowest: nothing to choose from");
    const double most = *std::min_element(medians.begin(), medians.end()) * (1 + tie);
    if (preferred < medians.size() && medians[preferred] <= most) return preferred;
    return static_cast<std::size_t>(
        std::find_if(medians.begin(), medians.end(), [&](double m) { return m <= most; }) - medians.begin());
}

std::vector<double> against_best(const std::vector<double>& one,
                                 const std::vector<std::vector<double>>& others) {
    std::size_t rounds = one.size();
    const bool some_left = std::any_of(others.begin(), others.end(), [&](const std::vector<double>& other) {
        return other.size() >= one.size();
    });
    for (const std::vector<double>& other : others) {
        if (!some_left) rounds = std::min(rounds, other.size());
    }
    if (rounds < 2 || others.empty()) throw std::invalid_argument("against_best: nothing to compare with");
    std::vector<double> ratios(rounds);
    for (std::size_t from : {std::size_t{0}, std::size_t{1}}) {
        const std::vector<double>* best = nullptr;
        double lowest = 0;
        for (const std::vector<double>& other : others) {
            if (other.size() < rounds) continue;
            const std::vector<double> common(other.begin(),
                                             other.begin() + static_cast<std::ptrdiff_t>(rounds));
            const double median = median_of(half(common, 1 - from));
            if (best != nullptr && median >= lowest) continue;
            best = &other;
            lowest = median;
        }
        for (std::size_t i = from; i < rounds; i += 2) ratios[i] = (*best)[i] / one[i];
    }
    return ratios;
}

}  // namespace file_io
