// The sum over the threads of a block.
#pragma once

#include <cuda_runtime.h>

namespace tenken {
namespace cuda {

/// Valid in the first thread of the block. Blocks consist of whole warps; all threads of the block must call
/// it.
__device__ inline double block_sum(double value) {
    __shared__ double of_warps[32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0;
        for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
    }
    __syncthreads();  // of_warps can be reused
    return value;
}

}  // namespace cuda
}  // namespace tenken
