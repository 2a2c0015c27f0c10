#include "lib/base/gpu_limit.h"

namespace tenken {

Limit memory_limit(const DeviceDescription& description) {
    if (!description.memory_clock_mhz || !description.memory_bus_bits) {
        return Limit::unknown(std::string("the GPU does not report its memory ") +
                              (description.memory_bus_bits ? "clock" : "bus width"));
    }
    const double bytes_per_transfer = *description.memory_bus_bits / 8.0;
    return Limit::known(2 * *description.memory_clock_mhz * 1e6 * bytes_per_transfer / 1e9, "GB/s",
                        "attribute: memory clock x bus width");
}

}  // namespace tenken
