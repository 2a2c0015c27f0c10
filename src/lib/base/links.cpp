#include "lib/base/links.h"

#include <algorithm>
#include <cstdio>

namespace tenken {

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

bool same_pci_device(const std::string& one, const std::string& other) {
    unsigned a[3];
    unsigned b[3];
    if (std::sscanf(one.c_str(), "%x:%x:%x", &a[0], &a[1], &a[2]) != 3) return false;
    if (std::sscanf(other.c_str(), "%x:%x:%x", &b[0], &b[1], &b[2]) != 3) return false;
    return std::equal(a, a + 3, b);
}

}  // namespace tenken
