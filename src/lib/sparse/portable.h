// Code that runs on the host and on a GPU alike: functors whose operator() is marked SPARSE_EVERYWHERE.
#pragma once

#ifdef __CUDACC__
#define SPARSE_EVERYWHERE __host__ __device__
#else
#define SPARSE_EVERYWHERE
#endif

namespace sparse {

/// Adds to a counter to which others add at the same time. @return what it was
SPARSE_EVERYWHERE inline int fetch_add(int* counter, int amount) {
#ifdef __CUDA_ARCH__
    return atomicAdd(counter, amount);
#else
    return __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
#endif
}

/// Raises a number that others raise at the same time to at least `value`.
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
