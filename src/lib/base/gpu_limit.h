// Physical limits of a GPU, computed from the properties that it reports.
#pragma once

#include "lib/base/device.h"
#include "lib/base/document.h"

namespace tenken {

/// Peak memory bandwidth of a GPU in GB/s: 2 (double data rate) x memory clock x bus width / 8.
/// Clock and width are device attributes; unknown if one of them is not reported (virtual GPUs).
Limit memory_limit(const DeviceDescription& description);

}  // namespace tenken
