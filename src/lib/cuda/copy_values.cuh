// copy_value() for the device, and its values in pinned memory without the CPU.
#pragma once

#include <algorithm>

#include "lib/base/copy_values.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/verify.cuh"

namespace tenken {
namespace cuda {

/// tenken::copy_value() of one pattern, written for the device.
struct CopyValues {
    int pattern;
    __host__ __device__ double operator()(std::size_t i) const {
        return static_cast<double>(pattern) + static_cast<double>(i % copy_period) / 1024.0;
    }
};

/// Writes copy_value(i, pattern) to every element of pinned host memory by copies from the device, and waits.
///
/// For the source of timed copies to the device. Data written by the CPU remain in the caches of its cores,
/// from which the GPU's reads must fetch them. That is slowest while the cores become idle, some milliseconds
/// after their last loop (docs/measured.md). It is a property of these caches, not of the link. Data written
/// by the GPU are in no core's cache.
///
/// The values come from an array of this function, not from the destination of the timed copies. That would
/// contain them before the first copy, and comparing it would prove nothing.
inline void fill_pinned(double* array, std::size_t elements, int pattern, const Stream& stream) {
    constexpr std::size_t part = copy_period * 4096;  // whole periods: the values of every part are the same
    DeviceArray<double> values(std::min(elements, part));
    fill(values.data(), values.size(), CopyValues{pattern}, stream);
    for (std::size_t begin = 0; begin < elements; begin += part) {
        const std::size_t bytes = std::min(part, elements - begin) * sizeof(double);
        TENKEN_CUDA(
            cudaMemcpyAsync(array + begin, values.data(), bytes, cudaMemcpyDeviceToHost, stream.get()));
    }
    stream.synchronize();
}

}  // namespace cuda
}  // namespace tenken
