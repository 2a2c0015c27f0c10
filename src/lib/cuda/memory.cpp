#include "lib/cuda/memory.h"

#include <cuda_runtime_api.h>

#include "lib/cuda/devices.h"

namespace tenken {
namespace cuda {

void* DeviceMemory::allocate(std::size_t bytes) {
    void* memory = nullptr;
    const cudaError_t result = cudaMalloc(&memory, bytes);
    if (result == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        require_free_memory(bytes, "an array");  // reports the figures, unless memory is too fragmented
    }
    if (result != cudaSuccess) fail(result, "cudaMalloc(&memory, bytes)", __FILE__, __LINE__);
    return memory;
}

void* PinnedMemory::allocate(std::size_t bytes) {
    void* memory = nullptr;
    TENKEN_CUDA(cudaMallocHost(&memory, bytes));
    return memory;
}

void* ManagedMemory::allocate(std::size_t bytes) {
    void* memory = nullptr;
    TENKEN_CUDA(cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal));
    return memory;
}

}  // namespace cuda
}  // namespace tenken
