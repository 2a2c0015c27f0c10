// The physical limit of the link between a GPU and its host.
#pragma once

#include "lib/base/device.h"
#include "lib/base/document.h"

namespace tenken {

/// PCIe in GB/s, one direction, by the highest generation and width of the GPU's link: line rate and line
/// code (8/10 up to generation 2, 128/130 up to 5, then 242/256) of the PCI Express Base Specification;
/// because of packet headers copies reach some 10 % less. Unknown if GPU and CPU share memory or page tables
/// (integrated GPUs, NVLink-C2C: the data sheet has their link), and if the link is not reported.
/// @param directions 1, or 2 for bidirectional
Limit host_link_limit(const DeviceDescription& device, int directions = 1);

}  // namespace tenken
