// The GPUs of this process: detection, description, selection, and their memory.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/device.h"
#include "lib/base/document.h"
#include "lib/base/nvml.h"

namespace tenken {
namespace cuda {

/// Number of GPUs visible to this process.
/// @throws std::runtime_error: no driver, a driver older than the runtime (with both versions), no GPU,
/// CUDA_VISIBLE_DEVICES empty, malformed or with a GPU that does not exist
int device_count();

/// The description of a GPU in the document. Creates a context on it, which uses some of its memory.
/// @param nvml may be null: then the values reported only by NVML are absent
/// @throws CudaError; std::runtime_error if this program contains no code for the GPU
DeviceDescription describe(int index, const Nvml* nvml);

/// Bytes that can still be allocated on the current GPU (on an integrated one: of the shared memory).
std::uint64_t free_memory_bytes();

/// Rejects arrays that do not fit, before they are allocated.
/// @param what e.g. "three arrays"
/// @throws std::runtime_error with the requested and free bytes
void require_free_memory(std::uint64_t bytes, const std::string& what);

/// Sets the CUDA compiler and the architectures of the code in the document.
void describe_build(Build& build);

}  // namespace cuda
}  // namespace tenken
