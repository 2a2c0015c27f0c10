// Loads with cache hints: the matrix is read once, x repeatedly.
#pragma once

#include <cuda_runtime.h>

namespace sparse {

/// streaming: ld.cs for the matrix, no hint for x. retaining: the matrix also bypasses the L1 and is evicted
/// from the L2 first, x last (from compute capability 8.0 on; streaming below).
enum class Caching { streaming, retaining };

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define SPARSE_HAS_POLICIES 1
#else
#define SPARSE_HAS_POLICIES 0
#endif

#if SPARSE_HAS_POLICIES
#define SPARSE_HINTED_LOADS(type, ptx, letter)                                           \
    __device__ inline type load_first_out(const type* from, unsigned long long policy) { \
        type value;                                                                      \
        asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint." ptx " %0, [%1], %2;" \
                     : "=" letter(value)                                                 \
                     : "l"(__cvta_generic_to_global(from)), "l"(policy));                \
        return value;                                                                    \
    }                                                                                    \
    __device__ inline type load_last_out(const type* from, unsigned long long policy) {  \
        type value;                                                                      \
        asm volatile("ld.global.nc.L2::cache_hint." ptx " %0, [%1], %2;"                 \
                     : "=" letter(value)                                                 \
                     : "l"(__cvta_generic_to_global(from)), "l"(policy));                \
        return value;                                                                    \
    }
SPARSE_HINTED_LOADS(double, "f64", "d")
SPARSE_HINTED_LOADS(float, "f32", "f")
SPARSE_HINTED_LOADS(int, "s32", "r")
#undef SPARSE_HINTED_LOADS

#define SPARSE_HINTED_PAIRS(type, ptx, letter)                                                    \
    __device__ inline type load_first_out(const type* from, unsigned long long policy) {          \
        type value;                                                                               \
        asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v2." ptx " {%0, %1}, [%2], %3;" \
                     : "=" letter(value.x), "=" letter(value.y)                                   \
                     : "l"(__cvta_generic_to_global(from)), "l"(policy));                         \
        return value;                                                                             \
    }
SPARSE_HINTED_PAIRS(double2, "f64", "d")
SPARSE_HINTED_PAIRS(float2, "f32", "f")
SPARSE_HINTED_PAIRS(int2, "s32", "r")
#undef SPARSE_HINTED_PAIRS
#endif

/// Loads with one cache policy. Construct one at the start of a kernel.
template <Caching caching>
struct Loads {
    unsigned long long first_out = 0;
    unsigned long long last_out = 0;

    __device__ Loads() {
#if SPARSE_HAS_POLICIES
        if (caching == Caching::retaining) {
            asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first_out));
            asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last_out));
        }
#endif
    }

    /// Of the matrix.
    template <typename T>
    __device__ T once(const T* from) const {
#if SPARSE_HAS_POLICIES
        if (caching == Caching::retaining) return load_first_out(from, first_out);
#endif
        return __ldcs(from);
    }
    /// Of x.
    template <typename T>
    __device__ T again(const T* from) const {
#if SPARSE_HAS_POLICIES
        if (caching == Caching::retaining) return load_last_out(from, last_out);
#endif
        return __ldg(from);
    }
};

}  // namespace sparse
