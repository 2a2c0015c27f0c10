// Compiled with -O0 in every build type: see CMakeLists.txt.
#include "lib/base/host_copy.h"

namespace tenken {

void copy_on_host_unoptimised(double* to, const double* from, std::size_t elements) {
    const long n = static_cast<long>(elements);
#pragma omp parallel for
    for (long i = 0; i < n; ++i) to[i] = from[i];
}

}  // namespace tenken
