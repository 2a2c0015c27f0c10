// The dot product of two arrays on the host, at memory bandwidth.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/host_array.h"

namespace tenken {

/// The sum of a[i] b[i] by all OpenMP threads, each its share; both arrays have the same size.
double dot_on_host(const HostArray& a, const HostArray& b);

/// GB/s of each dot product of two arrays that are together four times as large as the caches, as are the
/// matrices compared with this. @param cache_bytes of this process
std::vector<double> dot_rates_on_host(std::uint64_t cache_bytes, long repetitions, double warmup_seconds);

}  // namespace tenken
