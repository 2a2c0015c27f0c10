// Which GPUs a program uses: --gpus and CUDA_VISIBLE_DEVICES, checked before anything runs.
#pragma once

#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/optional.h"

namespace tenken {

/// The indices in "all" or in a list such as "0,2".
/// @param count number of GPUs; indices are 0 .. count - 1
/// @throws ArgumentError whose text is only the expectation, for Arguments::error()
std::vector<int> parse_gpu_list(const std::string& text, int count);

/// The entries of a well-formed CUDA_VISIBLE_DEVICES: whole numbers, GPU-... or MIG-..., without
/// duplicates. CUDA itself silently stops at the first entry that it does not understand.
/// @throws std::runtime_error with the variable, its value and the invalid entry; also if it is empty
std::vector<std::string> visible_devices(const std::string& value);

/// Compares the GPUs requested by CUDA_VISIBLE_DEVICES with the number of GPUs that CUDA then shows.
/// @param value absent if the variable is not set
/// @throws std::runtime_error with the first entry that is not a GPU of this machine
void check_visible_devices(const Optional<std::string>& value, int shown);

}  // namespace tenken
