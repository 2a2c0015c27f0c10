#include "lib/cuda/launch.h"

#include <algorithm>

#include "lib/base/statistics.h"

namespace tenken {
namespace cuda {

unsigned Launch::grid(std::size_t elements) const {
    const std::size_t tile =
        2 * static_cast<std::size_t>(threads) * static_cast<std::size_t>(pairs_per_thread);
    const std::size_t all = std::max<std::size_t>(1, (elements + tile - 1) / tile);
    constexpr std::size_t maximum = 0x7fffffff;  // maximum size of a grid in x; beyond it blocks loop
    return static_cast<unsigned>(
        std::min(blocks > 0 ? static_cast<std::size_t>(blocks) : maximum, std::min(all, maximum)));
}

std::string Launch::text() const {
    return std::to_string(threads) + " threads x " + std::to_string(pairs_per_thread) +
           (pairs_per_thread == 1 ? " pair, " : " pairs, ") +
           (caching == Caching::streaming ? "streaming, " : "normal caching, ") +
           (blocks == 0 ? std::string("one pass") : std::to_string(blocks) + " blocks looping");
}

bool launches_are_known(const std::string& compute_capability) {
    return compute_capability == "9.0";
}

Launch copy_launch() {
    return Launch(256, 1, Caching::normal);
}

// They differ enough that one of them should suit any GPU from P100 on.
std::vector<Launch> sweep_launches(int multiprocessors) {
    return {{256, 1, Caching::normal},    {128, 1, Caching::streaming},
            {128, 1, Caching::normal},    {512, 1, Caching::normal},
            {320, 1, Caching::normal},    {1024, 1, Caching::normal},
            {256, 2, Caching::streaming}, {256, 4, Caching::normal},
            {512, 1, Caching::streaming}, {1024, 2, Caching::normal, 2 * multiprocessors}};
}

std::vector<Launch> reduction_launches(int multiprocessors) {
    return {
        {1024, 4, Caching::streaming, 4 * multiprocessors}, {1024, 2, Caching::normal, 2 * multiprocessors},
        {512, 2, Caching::normal, 8 * multiprocessors},     {512, 4, Caching::normal, 4 * multiprocessors},
        {256, 4, Caching::streaming, 8 * multiprocessors},  {1024, 1, Caching::normal, 2 * multiprocessors}};
}

std::size_t cheapest(const std::vector<double>& costs, double tie) {
    const double lowest = *std::min_element(costs.begin(), costs.end());
    const auto first =
        std::find_if(costs.begin(), costs.end(), [&](double cost) { return cost <= lowest * (1 + tie); });
    return static_cast<std::size_t>(first - costs.begin());
}

Launch choose_launch(const std::vector<Launch>& candidates, const Stream& stream,
                     const std::function<void(const Launch&)>& run) {
    constexpr long repetitions = 7;
    std::vector<double> medians;
    for (const Launch& candidate : candidates) {
        const auto launch = [&](const Stream&) { run(candidate); };
        warm_up(0, stream, launch);
        medians.push_back(median(time_each(repetitions, stream, launch).device));
    }
    return candidates[cheapest(medians, 0.002)];
}

}  // namespace cuda
}  // namespace tenken
