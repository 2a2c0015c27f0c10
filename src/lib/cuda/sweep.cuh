// One pass over arrays of doubles at the bandwidth of the memory: out[i] = op(i), as a family of kernels from
// which the fastest launch configuration is selected.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "lib/cuda/check.h"
#include "lib/cuda/launch.h"
#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

/// Loads and stores by the cache policy of a launch. A pair is two adjacent elements, 16 bytes, the widest
/// access supported by every GPU.
template <Caching caching>
__device__ inline double2 load_pair(const double* array, std::size_t pair) {
    const double2* const at = reinterpret_cast<const double2*>(array) + pair;
    return caching == Caching::streaming ? __ldcs(at) : *at;
}

template <Caching caching>
__device__ inline void store_pair(double* array, std::size_t pair, double2 value) {
    double2* const at = reinterpret_cast<double2*>(array) + pair;
    if (caching == Caching::streaming) {
        __stcs(at, value);
    } else {
        *at = value;
    }
}

/// An Op has two members: pair<caching>(p), the values of elements 2p and 2p + 1, and element(i), that of
/// element i, for the last one of an odd number.
template <int pairs_per_thread, Caching caching, typename Op>
__global__ void __launch_bounds__(1024) sweep_kernel(double* out, Op op, std::size_t elements) {
    const std::size_t pairs = elements / 2;
    const std::size_t tile = static_cast<std::size_t>(blockDim.x) * pairs_per_thread;
    for (std::size_t base = blockIdx.x * tile; base < pairs; base += gridDim.x * tile) {
        const std::size_t first = base + threadIdx.x;
        if (base + tile <= pairs) {
            double2 values[pairs_per_thread];  // all loads are in flight before the first store
#pragma unroll
            for (int j = 0; j < pairs_per_thread; ++j) {
                values[j] = op.template pair<caching>(first + static_cast<std::size_t>(j) * blockDim.x);
            }
#pragma unroll
            for (int j = 0; j < pairs_per_thread; ++j) {
                store_pair<caching>(out, first + static_cast<std::size_t>(j) * blockDim.x, values[j]);
            }
        } else {
            for (std::size_t p = first; p < pairs; p += blockDim.x) {
                store_pair<caching>(out, p, op.template pair<caching>(p));
            }
        }
    }
    if (elements % 2 != 0 && blockIdx.x == 0 && threadIdx.x == 0)
        out[elements - 1] = op.element(elements - 1);
}

template <int pairs_per_thread, typename Op>
void launch_sweep_of(const Launch& launch, const Stream& stream, double* out, const Op& op,
                     std::size_t elements, unsigned grid) {
    const unsigned threads = static_cast<unsigned>(launch.threads);
    if (launch.caching == Caching::streaming) {
        sweep_kernel<pairs_per_thread, Caching::streaming>
            <<<grid, threads, 0, stream.get()>>>(out, op, elements);
    } else {
        sweep_kernel<pairs_per_thread, Caching::normal>
            <<<grid, threads, 0, stream.get()>>>(out, op, elements);
    }
    TENKEN_CUDA(cudaGetLastError());
}

/// Enqueues out[i] = op(i) for i in [0, elements). All arrays must be aligned to 16 bytes.
template <typename Op>
void launch_sweep(const Launch& launch, const Stream& stream, double* out, const Op& op,
                  std::size_t elements) {
    const unsigned grid = launch.grid(elements);
    switch (launch.pairs_per_thread) {
        case 1:
            return launch_sweep_of<1>(launch, stream, out, op, elements, grid);
        case 2:
            return launch_sweep_of<2>(launch, stream, out, op, elements, grid);
        default:
            return launch_sweep_of<4>(launch, stream, out, op, elements, grid);
    }
}

/// The Op of out = from.
struct CopyOp {
    const double* from;
    template <Caching caching>
    __device__ double2 pair(std::size_t p) const {
        return load_pair<caching>(from, p);
    }
    __device__ double element(std::size_t i) const { return from[i]; }
};

}  // namespace cuda
}  // namespace tenken
