// A[i] = B[i] by the host's threads.
#pragma once

#include <cstddef>

namespace tenken {

/// As fast as the host can: each thread its share, with stores that go past the caches where the compiler
/// can be told to. `to` must be aligned to 64 bytes, `from` to 64 as well.
void copy_on_host(double* to, const double* from, std::size_t elements);

/// The plain OpenMP loop compiled without optimisation (-O0), as some published figures were measured.
void copy_on_host_unoptimised(double* to, const double* from, std::size_t elements);

}  // namespace tenken
