// Moving managed memory and telling the driver where it should lie; CUDA 13 has other signatures than before.
#pragma once

#include <cstddef>
#include <string>

#include "lib/base/copy_gpu.h"
#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

/// Enqueues the move of managed memory to the host or to GPU `device`.
void prefetch(const void* memory, std::size_t bytes, MemorySpace space, int device, const Stream& stream);

/// Makes the host or GPU `device` the preferred location, and maps the memory for both.
void advise(const void* memory, std::size_t bytes, MemorySpace space, int device);

/// Lets GPU `device` reach the memory where it lies, without moving it there.
void map_for(const void* memory, std::size_t bytes, int device);

/// Where managed memory was last asked to move to, as the driver tells it (cudaMemRangeGetAttribute): "host",
/// "gpu0", or "never requested". It says nothing of moves by page faults.
std::string last_prefetch(const void* memory, std::size_t bytes);

}  // namespace cuda
}  // namespace tenken
