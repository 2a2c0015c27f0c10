// Order statistics of samples, as numpy's percentile by default.
#pragma once

#include <vector>

namespace tenken {

/// Percentile 50, by linear interpolation between the two order statistics around it.
/// @throws std::invalid_argument when there is no sample
double median(std::vector<double> samples);

}  // namespace tenken
