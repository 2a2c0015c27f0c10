#include "lib/base/links.h"

#include <algorithm>
#include <cstdio>

namespace tenken {

namespace {

constexpr const char* gbs = "GB/s";

/// GB/s between a GPU and the host in one direction; nothing if they are not connected by PCIe.
Optional<double> host_gbs(const DeviceDescription& device) {
    // Such a GPU is connected by a chip-to-chip link; its PCIe values describe another link.
    if (device.pageable_uses_host_page_tables || device.integrated) return {};
    if (!device.pcie_generation_max || !device.pcie_width_max) return {};
    const double rate = pcie_gbs(*device.pcie_generation_max, *device.pcie_width_max);
    if (rate <= 0) return {};
    return rate;
}

std::string format(const char* pattern, int count, double rate) {
    char text[96];
    std::snprintf(text, sizeof text, pattern, count, rate);
    return text;
}

}  // namespace

std::string LinkedGpu::inactive() const {
    std::string text;
    for (const NvLink& link : links) {
        if (!link.active) text += (text.empty() ? "" : ", ") + std::to_string(link.index);
    }
    return text;
}

std::string PairLink::text() const {
    return (count > 0 ? std::to_string(count) + " x " : "") + kind_text();
}

std::string PairLink::kind_text() const {
    switch (kind) {
        case Kind::nvlink:
            return "NVLink";
        case Kind::nvswitch:
            return "NVLink through a switch";
        case Kind::pcie:
            return "PCIe";
        case Kind::unknown:
            break;
    }
    return "not known";
}

PairLink pair_link(const LinkedGpu& from, const LinkedGpu& to) {
    PairLink found;
    const auto to_switch = [](const LinkedGpu& gpu) {
        return static_cast<int>(std::count_if(gpu.links.begin(), gpu.links.end(), [](const NvLink& link) {
            return link.active && link.end != NvLink::End::gpu;
        }));
    };
    const std::string other = to.description.pci_bus_id.value_or("");
    const auto direct =
        static_cast<int>(std::count_if(from.links.begin(), from.links.end(), [&](const NvLink& link) {
            return link.active && link.remote_pci_bus_id && same_pci_device(*link.remote_pci_bus_id, other);
        }));
    if (direct > 0) {
        found.kind = PairLink::Kind::nvlink;
        found.count = direct;
        return found;
    }
    found.count = std::min(to_switch(from), to_switch(to));
    if (found.count > 0) {
        found.kind = PairLink::Kind::nvswitch;
    } else if (from.description.pcie_generation_max) {
        found.kind = PairLink::Kind::pcie;
    }
    return found;
}

void report_link(Document& document, int from, int to, const PairLink& link) {
    const std::string pair = "gpu" + std::to_string(from) + "-gpu" + std::to_string(to);
    const Json count = link.kind == PairLink::Kind::unknown ? Json() : Json(link.count);
    document.path("link_kind." + pair, link.kind_text());
    document.path("link_count." + pair, count);
    Json one = Json::object();
    one.set("first", from).set("second", to).set("count", count).set("kind", link.kind_text());
    document.links.push_back(one);
}

Limit fan_limit(const LinkedGpu& one, const std::vector<const LinkedGpu*>& others) {
    int direct = 0;
    int shared = 0;
    for (const LinkedGpu* other : others) {
        const PairLink link = pair_link(one, *other);
        if (link.kind == PairLink::Kind::unknown) {
            return Limit::unknown("the driver does not report how they are connected");
        }
        if (link.kind == PairLink::Kind::nvlink) direct += link.count;
        // All of them share the links to the switch; each of the others is limited by its own.
        if (link.kind == PairLink::Kind::nvswitch) shared += link.count;
    }
    const Optional<double> rate = one.description.nvlink_gbs_per_link;
    const auto own = static_cast<int>(
        std::count_if(one.links.begin(), one.links.end(), [](const NvLink& link) { return link.active; }));
    const int count = std::min(direct + shared, own);
    if (count > 0) {
        if (!rate) return Limit::unknown("the driver does not report the rate of an NVLink");
        return Limit::known(count * *rate, gbs,
                            format("driver: %d active NVLinks at %.4g GB/s", count, *rate));
    }
    const Optional<double> pcie = host_gbs(one.description);
    if (!pcie) return Limit::unknown("the GPU does not report its PCIe generation and width");
    return Limit::known(*pcie, gbs, "driver: PCIe");
}

double pcie_gbs(int generation, int width) {
    constexpr double gigatransfers[] = {0, 2.5, 5, 8, 16, 32, 64};
    if (generation < 1 || generation > 6 || width < 1) return 0;
    // Payload bits; from generation 6 on bytes of a flit of 256.
    const double code = generation <= 2 ? 8.0 / 10 : generation <= 5 ? 128.0 / 130 : 242.0 / 256;
    return gigatransfers[generation] * code * width / 8;
}

bool same_pci_device(const std::string& one, const std::string& other) {
    unsigned a[3];
    unsigned b[3];
    if (std::sscanf(one.c_str(), "%x:%x:%x", &a[0], &a[1], &a[2]) != 3) return false;
    if (std::sscanf(other.c_str(), "%x:%x:%x", &b[0], &b[1], &b[2]) != 3) return false;
    return std::equal(a, a + 3, b);
}

}  // namespace tenken
