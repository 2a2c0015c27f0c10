// The dot product of two arrays on the host, at memory bandwidth.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/host_array.h"

namespace tenken {

/// The sum of a[i] b[i] by all OpenMP threads, each with its share; both arrays have the same size.
double dot_on_host(const HostArray& a, const HostArray& b);

/// Dot products of two long arrays, one after the other.
struct TimedDots {
    std::vector<double> seconds;
    double bytes = 0;  ///< bytes read by one of them
};

/// The two arrays together are four times as large as the caches, like the matrices that are compared with
/// them.
/// @param cache_bytes of this process
TimedDots time_dots_on_host(std::uint64_t cache_bytes, long repetitions, double warmup_seconds);

}  // namespace tenken
