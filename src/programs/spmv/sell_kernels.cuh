// y = A x for a matrix in sliced ELL: slices of adjacent rows, each padded to its longest row and stored
// column by column, so that the lanes of a warp read adjacent entries.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "lib/sparse/loads.cuh"

namespace spmv {

using sparse::Caching;
using sparse::Loads;

/// A matrix in device memory. Slice s has the places [offsets[s], offsets[s + 1]); a place without an entry
/// has column -1.
template <typename T>
struct SellView {
    int rows;
    const std::int64_t* offsets;
    const int* columns;
    const T* values;
};

template <typename T, int rows>
struct Pack;
template <typename T>
struct Pack<T, 1> {
    typedef T type;
    static __device__ T get(T pack, int) { return pack; }
};
template <>
struct Pack<double, 2> {
    typedef double2 type;
    static __device__ double get(double2 pack, int i) { return i == 0 ? pack.x : pack.y; }
};
template <>
struct Pack<float, 2> {
    typedef float2 type;
    static __device__ float get(float2 pack, int i) { return i == 0 ? pack.x : pack.y; }
};
template <>
struct Pack<int, 2> {
    typedef int2 type;
    static __device__ int get(int2 pack, int i) { return i == 0 ? pack.x : pack.y; }
};

/// One warp per slice of 32 x `rows_a_thread` rows; a thread has that many adjacent rows and loads their
/// entries together. @tparam unroll places of a row with loads in flight
template <typename T, int rows_a_thread, int unroll, Caching caching>
__global__ void __launch_bounds__(256) sell_kernel(SellView<T> a, const T* x, T* y) {
    constexpr int height = 32 * rows_a_thread;
    typedef typename Pack<T, rows_a_thread>::type Values;
    typedef typename Pack<int, rows_a_thread>::type Columns;
    const Loads<caching> loads;
    const std::int64_t row =
        (blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x) * rows_a_thread;
    if (row >= a.rows) return;
    const std::int64_t slice = row / height;
    const std::int64_t first = a.offsets[slice];
    const int width = static_cast<int>((a.offsets[slice + 1] - first) / height);
    const T* const values = a.values + first + row % height;
    const int* const columns = a.columns + first + row % height;
    T sum[rows_a_thread] = {};
    int i = 0;
    for (; i + unroll <= width; i += unroll) {
        Values value[unroll];
        Columns column[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            column[u] = loads.once(
                reinterpret_cast<const Columns*>(columns + static_cast<std::int64_t>(i + u) * height));
            value[u] = loads.once(
                reinterpret_cast<const Values*>(values + static_cast<std::int64_t>(i + u) * height));
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
#pragma unroll
            for (int r = 0; r < rows_a_thread; ++r) {
                const int at = Pack<int, rows_a_thread>::get(column[u], r);
                if (at >= 0) sum[r] += Pack<T, rows_a_thread>::get(value[u], r) * loads.again(x + at);
            }
        }
    }
    for (; i < width; ++i) {
        const Columns column =
            loads.once(reinterpret_cast<const Columns*>(columns + static_cast<std::int64_t>(i) * height));
        const Values value =
            loads.once(reinterpret_cast<const Values*>(values + static_cast<std::int64_t>(i) * height));
#pragma unroll
        for (int r = 0; r < rows_a_thread; ++r) {
            const int at = Pack<int, rows_a_thread>::get(column, r);
            if (at >= 0) sum[r] += Pack<T, rows_a_thread>::get(value, r) * loads.again(x + at);
        }
    }
#pragma unroll
    for (int r = 0; r < rows_a_thread; ++r) {
        if (row + r < a.rows) __stcs(y + row + r, sum[r]);
    }
}

}  // namespace spmv
