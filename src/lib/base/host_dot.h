// The dot product of two arrays on the host, at memory bandwidth.
#pragma once

#include "lib/base/host_array.h"

namespace tenken {

/// The sum of a[i] b[i] by all OpenMP threads, each its share; both arrays have the same size.
double dot_on_host(const HostArray& a, const HostArray& b);

}  // namespace tenken
