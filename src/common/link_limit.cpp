#include "common/link_limit.h"

#include <string>

namespace tenken {

Limit host_link_limit(const DeviceDescription& device, int directions) {
    if (device.integrated) return Limit::unknown("GPU and CPU share one memory");
    if (device.pageable_uses_host_page_tables) {
        return Limit::unknown("the link is not PCIe: GPU and CPU share page tables");
    }
    if (!device.pcie_generation_max || !device.pcie_width_max) {
        return Limit::unknown("the driver does not tell the PCIe link");
    }
    const int generation = *device.pcie_generation_max;
    const int width = *device.pcie_width_max;
    static const double gigatransfers[] = {2.5, 5, 8, 16, 32, 64};
    if (generation < 1 || generation > 6 || width < 1) {
        return Limit::unknown("PCIe generation " + std::to_string(generation) + " is not known");
    }
    const double code = generation <= 2 ? 8.0 / 10 : 128.0 / 130;
    const double one = gigatransfers[generation - 1] * code * width / 8;
    return Limit::known(directions * one, "GB/s",
                        "attribute: PCIe generation " + std::to_string(generation) + " x" +
                            std::to_string(width) + (directions == 2 ? ", both directions" : ""));
}

}  // namespace tenken
