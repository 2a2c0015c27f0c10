// Code for both the host and a GPU: functors whose operator() is marked SPARSE_EVERYWHERE.
#pragma once

#ifdef __CUDACC__
#define SPARSE_EVERYWHERE __host__ __device__
#else
#define SPARSE_EVERYWHERE
#endif

namespace sparse {

/// Atomic addition. @return the previous value
SPARSE_EVERYWHERE inline int fetch_add(int* counter, int amount) {
#ifdef __CUDA_ARCH__
    return atomicAdd(counter, amount);
#else
    return __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
#endif
}

/// Atomic maximum with `value`.
SPARSE_EVERYWHERE inline void raise_to(int* number, int value) {
#ifdef __CUDA_ARCH__
    if (*static_cast<volatile int*>(number) < value) atomicMax(number, value);
#else
    int found = __atomic_load_n(number, __ATOMIC_RELAXED);
    while (found < value &&
           !__atomic_compare_exchange_n(number, &found, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
#endif
}

}  // namespace sparse
