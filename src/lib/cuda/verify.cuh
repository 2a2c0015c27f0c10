// Writes and compares whole arrays in place on the GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "lib/base/verification.h"
#include "lib/cuda/check.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

constexpr unsigned verify_threads = 256;

/// Enough blocks to fill any GPU; the kernels loop.
inline unsigned verify_blocks(std::size_t elements) {
    const std::size_t all = elements / verify_threads + 1;
    return static_cast<unsigned>(all < 4096 ? all : 4096);
}

template <typename Values>
__global__ void fill_kernel(double* array, std::size_t elements, Values values) {
    const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
    if (i < elements) array[i] = values(i);
}

/// Enqueues array[i] = values(i); `values` has a __device__ double operator()(std::size_t) const.
/// From the first element to the last in one pass: managed memory first touched this way is placed as by a
/// prefetch. With the looping blocks of a smaller grid, later copies are 2.5 % slower
/// (docs/measured.md).
template <typename Values>
void fill(double* array, std::size_t elements, const Values& values, const Stream& stream) {
    if (elements == 0) return;
    stream.require_current();
    const std::size_t blocks = (elements + verify_threads - 1) / verify_threads;
    fill_kernel<<<static_cast<unsigned>(blocks), verify_threads, 0, stream.get()>>>(array, elements, values);
    TENKEN_CUDA(cudaGetLastError());
}

/// The GPU's result. Errors are never negative, so their bits have the same order.
struct Found {
    unsigned long long largest_error_bits;
    unsigned long long first_wrong;
};

/// As tenken::relative_error(), by the same operations.
__device__ inline double relative_error_on_device(double value, double expected) {
    const double difference = fabs(value - expected);
    if (!isfinite(difference)) return __longlong_as_double(0x7ff0000000000000LL);
    return expected == 0 ? difference : difference / fabs(expected);
}

template <typename Expected>
__global__ void compare_kernel(const double* array, std::size_t elements, Expected expected, double tolerance,
                               Found* found) {
    double largest = 0;
    unsigned long long first = ~0ULL;
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < elements;
         i += step) {
        const double error = relative_error_on_device(array[i], expected(i));
        if (error > largest) largest = error;
        if (!(error <= tolerance) && i < first) first = i;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        const double other = __shfl_down_sync(0xffffffffu, largest, offset);
        if (other > largest) largest = other;
    }
    if (threadIdx.x % 32 == 0 && largest > 0) {
        atomicMax(&found->largest_error_bits, static_cast<unsigned long long>(__double_as_longlong(largest)));
    }
    if (first != ~0ULL) atomicMin(&found->first_wrong, first);  // never executed in a run without errors
}

/// Compares every element with expected(i) on the GPU, into a scan with the same tolerance.
/// `expected` has a __host__ __device__ double operator()(std::size_t) const. Waits for the result.
template <typename Expected>
ErrorScan compare(const double* array, std::size_t elements, const Expected& expected, double tolerance,
                  const Stream& stream) {
    stream.require_current();
    DeviceArray<Found> found(1);
    Found result = {0, ~0ULL};
    TENKEN_CUDA(cudaMemcpyAsync(found.data(), &result, sizeof result, cudaMemcpyHostToDevice, stream.get()));
    compare_kernel<<<verify_blocks(elements), verify_threads, 0, stream.get()>>>(array, elements, expected,
                                                                                 tolerance, found.data());
    TENKEN_CUDA(cudaGetLastError());
    TENKEN_CUDA(cudaMemcpyAsync(&result, found.data(), sizeof result, cudaMemcpyDeviceToHost, stream.get()));
    stream.synchronize();
    ErrorScan scan(tolerance);
    scan.take(double_of_bits(result.largest_error_bits));
    if (result.first_wrong != ~0ULL) {
        double value = 0;
        const std::size_t first = static_cast<std::size_t>(result.first_wrong);
        TENKEN_CUDA(cudaMemcpy(&value, array + first, sizeof value, cudaMemcpyDefault));
        scan.compare(first, value, expected(first));
    }
    return scan;
}

/// Flips one bit of array[index], for --inject-fault element.
inline void flip_bit(double* array, std::size_t index) {
    double value = 0;
    TENKEN_CUDA(cudaMemcpy(&value, array + index, sizeof value, cudaMemcpyDefault));
    value = with_flipped_bit(value);
    TENKEN_CUDA(cudaMemcpy(array + index, &value, sizeof value, cudaMemcpyDefault));
}

}  // namespace cuda
}  // namespace tenken
