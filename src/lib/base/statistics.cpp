#include "lib/base/statistics.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tenken {

double percentile(const std::vector<double>& sorted, double percent) {
    if (sorted.empty()) throw std::invalid_argument("percentile of no samples");
    if (!(percent >= 0 && percent <= 100)) throw std::invalid_argument("percentile outside 0..100");
    const double rank = percent / 100 * static_cast<double>(sorted.size() - 1);
    const double below = std::floor(rank);
    const auto i = static_cast<std::size_t>(below);
    if (i + 1 >= sorted.size()) return sorted.back();
    const double step = sorted[i + 1] - sorted[i];
    const double t = rank - below;
    // From the nearer end, so that the result stays in the interval and equals that of numpy.
    return t < 0.5 ? sorted[i] + step * t : sorted[i + 1] - step * (1 - t);
}

Statistics order_statistics(std::vector<double> samples, Direction direction) {
    if (samples.empty()) throw std::invalid_argument("statistics of no samples");
    Statistics result;
    result.count = samples.size();
    for (double sample : samples) result.mean += sample;
    result.mean /= static_cast<double>(samples.size());
    std::sort(samples.begin(), samples.end());
    result.best = direction == Direction::higher ? samples.back() : samples.front();
    result.median = percentile(samples, 50);
    result.p5 = percentile(samples, 5);
    result.p95 = percentile(samples, 95);
    return result;
}

}  // namespace tenken
