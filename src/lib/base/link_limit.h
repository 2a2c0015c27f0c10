// The physical limit of the link between a GPU and its host.
#pragma once

#include "lib/base/device.h"
#include "lib/base/document.h"

namespace tenken {

/// PCIe in GB/s, one direction, by the highest generation and width of the GPU's link: line rate and line
/// code (8/10 up to generation 2, 128/130 up to 5, then 242/256), as PCI Express Base Specification has them;
/// packet headers keep copies some 10 % below. Unknown where GPU and CPU share one memory or its page tables
/// (integrated GPUs, NVLink-C2C: the data sheet has their link), and where the link is not told.
/// @param directions 1, or 2 for both at once
Limit host_link_limit(const DeviceDescription& device, int directions = 1);

}  // namespace tenken
