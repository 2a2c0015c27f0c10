// Loads of the passes over the matrix.
#pragma once

#include <cuda_runtime.h>

#include "lib/sparse/loads.cuh"

namespace hpcg {

using sparse::Caching;

/// As sparse::Loads for the matrix. Loads of vectors are not moved before the point where a kernel that has
/// started early waits for the previous one, which may still be writing the vectors.
template <Caching caching>
struct Loads {
    sparse::Loads<caching> loads;

    template <typename T>
    __device__ T matrix(const T* from) const {
        return loads.once(from);
    }

    __device__ double vector(const double* from) const {
#if SPARSE_HAS_POLICIES
        if (caching == Caching::retaining) {
            double value;
            asm volatile("ld.global.L2::cache_hint.f64 %0, [%1], %2;"
                         : "=d"(value)
                         : "l"(__cvta_generic_to_global(from)), "l"(loads.last_out)
                         : "memory");
            return value;
        }
#endif
        return *from;
    }
};

}  // namespace hpcg
