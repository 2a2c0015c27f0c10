// The GPUs of this process: finding, describing and choosing them, and their memory.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/device.h"
#include "lib/base/document.h"
#include "lib/base/nvml.h"

namespace tenken {
namespace cuda {

/// How many GPUs there are for this process.
/// @throws std::runtime_error: no driver, a driver older than the runtime (both versions named), no GPU,
/// CUDA_VISIBLE_DEVICES empty, malformed or naming a GPU that is not there
int device_count();

/// Everything the document says of a GPU. Makes a context on it, which takes some of its memory.
/// @param nvml may be null: then what only NVML tells is absent
/// @throws CudaError; std::runtime_error when this program holds no code for the GPU
DeviceDescription describe(int index, const Nvml* nvml);

/// Bytes that can still be allocated on the current GPU (on an integrated one: of the memory it shares).
std::uint64_t free_memory_bytes();

/// Refuses to begin what cannot fit. @param what e.g. "three arrays"
/// @throws std::runtime_error with the bytes asked and free
void require_free_memory(std::uint64_t bytes, const std::string& what);

/// Sets what the document says of the CUDA compiler and the architectures of the code.
void describe_build(Build& build);

}  // namespace cuda
}  // namespace tenken
