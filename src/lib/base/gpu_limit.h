// Physical limits of a GPU, computed from what it says of itself.
#pragma once

#include "lib/base/device.h"
#include "lib/base/document.h"

namespace tenken {

/// What the memory of a GPU can move at most, in GB/s: 2 (double data rate) x memory clock x bus width / 8.
/// Clock and width are device attributes; unknown where one of them is not told (virtual GPUs).
Limit memory_limit(const DeviceDescription& description);

}  // namespace tenken
