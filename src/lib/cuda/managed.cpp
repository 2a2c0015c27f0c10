#include "lib/cuda/managed.h"

#include <cuda_runtime_api.h>

namespace tenken {
namespace cuda {

namespace {

#if CUDART_VERSION >= 13000
cudaMemLocation location(int device) {
    cudaMemLocation place = {};
    place.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
    place.id = device == cudaCpuDeviceId ? 0 : device;
    return place;
}
#else
int location(int device) {
    return device;
}
#endif

}  // namespace

void prefetch(const void* memory, std::size_t bytes, MemorySpace space, int device, const Stream& stream) {
    const int to = space == MemorySpace::host ? cudaCpuDeviceId : device;
#if CUDART_VERSION >= 13000
    TENKEN_CUDA(cudaMemPrefetchAsync(memory, bytes, location(to), 0, stream.get()));
#else
    TENKEN_CUDA(cudaMemPrefetchAsync(memory, bytes, location(to), stream.get()));
#endif
}

void advise(const void* memory, std::size_t bytes, MemorySpace space, int device) {
    const int preferred = space == MemorySpace::host ? cudaCpuDeviceId : device;
    TENKEN_CUDA(cudaMemAdvise(memory, bytes, cudaMemAdviseSetPreferredLocation, location(preferred)));
    TENKEN_CUDA(cudaMemAdvise(memory, bytes, cudaMemAdviseSetAccessedBy, location(cudaCpuDeviceId)));
    TENKEN_CUDA(cudaMemAdvise(memory, bytes, cudaMemAdviseSetAccessedBy, location(device)));
}

void map_for(const void* memory, std::size_t bytes, int device) {
    TENKEN_CUDA(cudaMemAdvise(memory, bytes, cudaMemAdviseSetAccessedBy, location(device)));
}

std::string last_prefetch(const void* memory, std::size_t bytes) {
    int device = cudaInvalidDeviceId;
    if (cudaMemRangeGetAttribute(&device, sizeof device, cudaMemRangeAttributeLastPrefetchLocation, memory,
                                 bytes) != cudaSuccess) {
        cudaGetLastError();
        return "not reported";
    }
    if (device == cudaCpuDeviceId) return "host";
    return device == cudaInvalidDeviceId ? "never requested" : "gpu" + std::to_string(device);
}

}  // namespace cuda
}  // namespace tenken
