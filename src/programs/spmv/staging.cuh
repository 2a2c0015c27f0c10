// Copies of a part of the matrix into shared memory.
#pragma once

#include <cuda_runtime.h>

#include "lib/sparse/loads.cuh"

namespace spmv {

using sparse::Caching;
using sparse::Loads;

/// Entries are copied in groups of this many, so that copies of both arrays have 16 bytes. The arrays must be
/// aligned to a group and readable up to the end of the last one.
constexpr int staging_group = 4;

/// 16 bytes, bypassing registers if the GPU supports it (compute capability 8.0), which permits many in
/// flight.
template <Caching caching>
__device__ inline void copy_16_bytes(void* to, const void* from, const Loads<caching>& loads) {
#if SPARSE_HAS_POLICIES
    const unsigned shared_to = static_cast<unsigned>(__cvta_generic_to_shared(to));
    if (caching == Caching::retaining) {
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(shared_to),
                     "l"(__cvta_generic_to_global(from)), "l"(loads.first_out)
                     : "memory");
    } else {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_to),
                     "l"(__cvta_generic_to_global(from))
                     : "memory");
    }
#else
    (void)loads;
    *static_cast<int4*>(to) = __ldcs(static_cast<const int4*>(from));
#endif
}

/// Starts to copy `count` values and columns, a multiple of staging_group; this is thread t of `threads`.
template <Caching caching, typename T>
__device__ inline void stage(T* values, const T* from_values, int* columns, const int* from_columns,
                             int count, int t, int threads, const Loads<caching>& loads) {
    constexpr int per_copy = 16 / static_cast<int>(sizeof(T));
    for (int j = t * per_copy; j < count; j += threads * per_copy) {
        copy_16_bytes(values + j, from_values + j, loads);
    }
    for (int j = t * 4; j < count; j += threads * 4) copy_16_bytes(columns + j, from_columns + j, loads);
}

/// Closes a group of copies: those started by this thread since the last one.
__device__ inline void stage_commit() {
#if SPARSE_HAS_POLICIES
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all but the last `but` groups closed by the threads of this warp are visible to all of them.
template <int but>
__device__ inline void stage_wait() {
#if SPARSE_HAS_POLICIES
    asm volatile("cp.async.wait_group %0;" ::"n"(but) : "memory");
#endif
    __syncwarp();
}

/// Waits until the copies started by stage() are visible to all threads of the block.
__device__ inline void stage_end() {
#if SPARSE_HAS_POLICIES
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
}

}  // namespace spmv
