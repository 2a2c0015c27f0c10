// Order statistics of samples, defined as in the result document (and as numpy's percentile by default).
#pragma once

#include <cstddef>
#include <vector>

namespace tenken {

enum class Direction { higher, lower };

struct Statistics {
    double best = 0;    ///< the largest sample if higher is better, otherwise the smallest
    double median = 0;  ///< percentile 50
    double p5 = 0;      ///< percentile 5 of the samples, independent of the direction
    double p95 = 0;
    double mean = 0;
    std::size_t count = 0;
};

/// The percentile (0..100) by linear interpolation between the two order statistics around it.
/// @throws std::invalid_argument if there is no sample or the percentile is out of range
double percentile(const std::vector<double>& sorted, double percent);

/// @throws std::invalid_argument when there is no sample
Statistics order_statistics(std::vector<double> samples, Direction direction);

}  // namespace tenken
