// A[i] = B[i] by the host's threads.
#pragma once

#include <cstddef>

namespace tenken {

/// As fast as possible: each thread copies its share, with stores that bypass the caches if the compiler
/// supports them. `to` and `from` must be aligned to 64 bytes.
void copy_on_host(double* to, const double* from, std::size_t elements);

/// The plain OpenMP loop compiled without optimisation (-O0), as some published figures were measured.
void copy_on_host_unoptimised(double* to, const double* from, std::size_t elements);

}  // namespace tenken
