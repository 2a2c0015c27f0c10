// Prefetch and advice for managed memory; their signatures differ in CUDA 13.
#pragma once

#include <cstddef>
#include <string>

#include "lib/base/copy_gpu.h"
#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

/// Enqueues the prefetch of managed memory to the host or to GPU `device`.
void prefetch(const void* memory, std::size_t bytes, MemorySpace space, int device, const Stream& stream);

/// Makes the host or GPU `device` the preferred location, and maps the memory for both.
void advise(const void* memory, std::size_t bytes, MemorySpace space, int device);

/// Lets GPU `device` access the memory in place, without migrating it.
void map_for(const void* memory, std::size_t bytes, int device);

/// The last requested prefetch location of managed memory, as reported by cudaMemRangeGetAttribute: "host",
/// "gpu0", or "never requested". It does not reflect migration by page faults.
std::string last_prefetch(const void* memory, std::size_t bytes);

}  // namespace cuda
}  // namespace tenken
