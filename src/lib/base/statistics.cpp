#include "lib/base/statistics.h"

#include <algorithm>
#include <stdexcept>

namespace tenken {

double median(std::vector<double> samples) {
    if (samples.empty()) throw std::invalid_argument("the median of no samples");
    std::sort(samples.begin(), samples.end());
    const std::size_t middle = samples.size() / 2;
    if (samples.size() % 2 == 1) return samples[middle];
    // from the nearer end, like numpy, so that the result stays in the interval
    return samples[middle] - (samples[middle] - samples[middle - 1]) * 0.5;
}

}  // namespace tenken
