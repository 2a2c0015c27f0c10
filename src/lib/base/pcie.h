// The maximum of both ends of a GPU's PCIe link, as the kernel reports it: a link that trained lower is
// faulty.
#pragma once

#include <string>

#include "lib/base/device.h"

namespace tenken {

/// The generation of a rate such as "32.0 GT/s PCIe" (1 to 6), nothing for other text.
Optional<int> pcie_generation(const std::string& speed);

/// Sets the fields `pcie_*_gpu` and `pcie_*_bridge`: `max_link_speed` and `max_link_width` of the GPU with
/// this PCI address (any case) and of the bridge above it. Unreadable values, and those of a link without a
/// bridge, stay absent.
/// @param root of the files, for tests
void read_pcie_ends(const std::string& pci_bus_id, DeviceDescription& description,
                    const std::string& root = "");

}  // namespace tenken
