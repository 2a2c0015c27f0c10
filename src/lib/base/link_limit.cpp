#include "lib/base/link_limit.h"

#include <string>

#include "lib/base/links.h"

namespace tenken {

Limit host_link_limit(const DeviceDescription& device, int directions) {
    if (device.integrated) return Limit::unknown("GPU and CPU share one memory");
    if (device.pageable_uses_host_page_tables) {
        return Limit::unknown("the link is not PCIe: GPU and CPU share page tables");
    }
    if (!device.pcie_generation_max || !device.pcie_width_max) {
        return Limit::unknown("the driver does not report the PCIe link");
    }
    const int generation = *device.pcie_generation_max;
    const int width = *device.pcie_width_max;
    const double one = pcie_gbs(generation, width);
    if (!(one > 0)) return Limit::unknown("PCIe generation " + std::to_string(generation) + " is not known");
    return Limit::known(directions * one, "GB/s",
                        "attribute: PCIe generation " + std::to_string(generation) + " x" +
                            std::to_string(width) + (directions == 2 ? ", both directions" : ""));
}

}  // namespace tenken
