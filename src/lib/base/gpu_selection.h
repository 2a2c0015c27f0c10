// Which GPUs a program uses: --gpus and CUDA_VISIBLE_DEVICES, checked before anything runs.
#pragma once

#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/optional.h"

namespace tenken {

/// The indices in "all" or in a list such as "0,2".
/// @param count GPUs that there are; indices are 0 .. count - 1
/// @throws ArgumentError whose text is only the expectation, for Arguments::error()
std::vector<int> parse_gpu_list(const std::string& text, int count);

/// The entries of a CUDA_VISIBLE_DEVICES that is well formed: whole numbers, GPU-... or MIG-..., no two the
/// same. CUDA itself silently stops at the first entry it does not understand.
/// @throws std::runtime_error that names the variable, its value and the wrong entry; also when it is empty
std::vector<std::string> visible_devices(const std::string& value);

/// Compares what CUDA_VISIBLE_DEVICES asks for with the number of GPUs that CUDA then shows.
/// @param value absent when the variable is not set
/// @throws std::runtime_error naming the first entry that is no GPU of this machine
void check_visible_devices(const Optional<std::string>& value, int shown);

}  // namespace tenken
