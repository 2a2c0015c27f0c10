#include "lib/base/pcie.h"

#include <limits.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "lib/base/text_file.h"

namespace tenken {

namespace {

/// The widest link; registers that cannot be read give 63 or 255.
constexpr int widest = 32;

void read_end(const std::string& folder, Optional<int>& generation, Optional<int>& width) {
    const Optional<std::string> speed = read_text(folder + "/max_link_speed");
    if (speed) generation = pcie_generation(*speed);
    const Optional<std::uint64_t> lanes = read_number(folder + "/max_link_width");
    if (lanes && *lanes > 0 && *lanes <= widest) width = static_cast<int>(*lanes);
}

}  // namespace

Optional<int> pcie_generation(const std::string& speed) {
    const double rates[] = {2.5, 5, 8, 16, 32, 64};
    const double rate = std::strtod(speed.c_str(), nullptr);
    for (int i = 0; i < 6; ++i) {
        if (rate == rates[i]) return i + 1;
    }
    return {};
}

void read_pcie_ends(const std::string& pci_bus_id, DeviceDescription& description, const std::string& root) {
    std::string address = pci_bus_id;
    std::transform(address.begin(), address.end(), address.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    char folder[PATH_MAX];
    if (realpath((root + "/sys/bus/pci/devices/" + address).c_str(), folder) == nullptr) return;
    const std::string gpu = folder;
    read_end(gpu, description.pcie_generation_gpu, description.pcie_width_gpu);
    const std::string above = gpu.substr(0, gpu.rfind('/'));
    const std::string name = above.substr(above.rfind('/') + 1);
    // a GPU on the root bus is below "pci0000:00", which is not a device
    if (name.compare(0, 3, "pci") == 0) return;
    description.pcie_bridge = name;
    read_end(above, description.pcie_generation_bridge, description.pcie_width_bridge);
}

}  // namespace tenken
