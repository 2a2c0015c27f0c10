// What a GPU can do of one product at most, by its attributes and its architecture's white paper.
#pragma once

#include "lib/base/device.h"
#include "lib/base/document.h"
#include "programs/gemm/precision.h"

namespace gemm {

/// TFLOP/s: units x clock x operations a cycle, or what crossing the memory once allows, whichever is less.
tenken::Limit peak_of(const Case& one, const tenken::DeviceDescription& device);

}  // namespace gemm
