// The peak rate of a product on a GPU, by its attributes and its architecture's white paper.
#pragma once

#include "lib/base/device.h"
#include "lib/base/document.h"
#include "programs/gemm/precision.h"

namespace gemm {

/// TFLOP/s: units x clock x operations per cycle, or the limit of reading the memory once, whichever is
/// lower.
tenken::Limit peak_of(const Case& one, const tenken::DeviceDescription& device);

}  // namespace gemm
