#include <cstdint>

#include "lib/cuda/copy.h"
#include "lib/cuda/sweep.cuh"

namespace tenken {
namespace cuda {

namespace {

__global__ void copy_elements(double* to, const double* from, std::size_t elements) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < elements;
         i += step) {
        to[i] = from[i];
    }
}

bool aligned(const double* array) {
    return reinterpret_cast<std::uintptr_t>(array) % sizeof(double2) == 0;
}

}  // namespace

void copy(double* to, const double* from, std::size_t elements, const Launch& launch, const Stream& stream) {
    if (aligned(to) && aligned(from)) return launch_sweep(launch, stream, to, CopyOp{from}, elements);
    const unsigned threads = static_cast<unsigned>(launch.threads);
    copy_elements<<<launch.grid(elements), threads, 0, stream.get()>>>(to, from, elements);
    TENKEN_CUDA(cudaGetLastError());
}

Launch choose_copy_launch(double* to, const double* from, std::size_t elements, int multiprocessors,
                          const Stream& stream) {
    return choose_launch(sweep_launches(multiprocessors), stream,
                         [&](const Launch& launch) { copy(to, from, elements, launch, stream); });
}

}  // namespace cuda
}  // namespace tenken
