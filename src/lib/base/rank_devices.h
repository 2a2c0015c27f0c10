// The GPUs of several ranks: which of them are the same, and all of a node in one document.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lib/base/document.h"

namespace tenken {

/// A rank's GPU.
struct RankDevice {
    std::string node;
    std::string id;  ///< what tells it from others of its node; empty: this rank has none
    int index = 0;   ///< CUDA index within the rank's process
};

/// The UUID, else the PCI address, else the CUDA index, which is another GPU where each rank sees only its
/// own.
inline std::string id_of(const DeviceDescription& device) {
    if (device.uuid) return *device.uuid;
    return device.pci_bus_id ? *device.pci_bus_id : std::to_string(device.index);
}

/// The GPUs of all ranks by rank, in every rank. Called by all ranks together.
/// @tparam Ranks has gather() and broadcast() of texts, and nodes()
/// @param device that of this rank; null: it has none
template <typename Ranks>
std::vector<RankDevice> devices_of_ranks(Ranks& ranks, const DeviceDescription* device) {
    const std::string mine = device == nullptr ? "0 " : std::to_string(device->index) + " " + id_of(*device);
    std::string text;
    for (const std::string& one : ranks.gather(mine)) text += one + "\n";
    const std::vector<std::string> nodes = ranks.nodes();
    std::vector<RankDevice> all;
    std::istringstream lines(ranks.broadcast(text));
    for (std::string line; std::getline(lines, line);) {
        const std::size_t space = line.find(' ');
        const std::string node = all.size() < nodes.size() ? nodes[all.size()] : "";
        all.push_back({node, line.substr(space + 1), std::stoi(line.substr(0, space))});
    }
    return all;
}

/// How many ranks have the same GPU as this one.
inline int sharing_of(const std::vector<RankDevice>& all, std::size_t rank) {
    return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const RankDevice& one) {
        return one.node == all[rank].node && one.id == all[rank].id;
    }));
}

/// The number of a rank's GPU in the document: its CUDA index or, where another GPU of the node has that,
/// since each rank sees only its own, the lowest that is free.
inline int number_on_node(const std::vector<RankDevice>& all, std::size_t rank) {
    std::map<std::string, int> numbers;
    std::set<int> taken;
    for (const RankDevice& one : all) {
        if (one.node != all[rank].node || numbers.count(one.id) > 0) continue;
        int number = one.index;
        if (taken.count(number) > 0) {
            for (number = 0; taken.count(number) > 0;) ++number;
        }
        numbers[one.id] = number;
        taken.insert(number);
    }
    return numbers[all[rank].id];
}

/// Writes every GPU of the node of the rank that prints, once, with its health, and the health of those of
/// other nodes: a document's devices are those of one node. Called by all ranks together.
/// @tparam Ranks has rank() and speaks(), and what devices_of_ranks() needs
/// @param health what this rank read of its GPU; absent if it could not
/// @param why_not then the reason
template <typename Ranks>
void report_rank_devices(Document& document, Ranks& ranks, DeviceDescription device,
                         const Optional<DeviceHealth>& health, const std::string& why_not) {
    const std::vector<RankDevice> all = devices_of_ranks(ranks, &device);
    const std::size_t own = static_cast<std::size_t>(ranks.rank());
    device.index = number_on_node(all, own);
    std::string read;
    if (health) {
        DeviceHealth one = *health;
        one.index = device.index;
        if (all[own].node != all[0].node) one.node = all[own].node;
        read = one.json().dump();
    }
    const std::vector<std::string> devices = ranks.gather(device.json().dump());
    const std::vector<std::string> healths = ranks.gather(read);
    const std::vector<std::string> reasons = ranks.gather(why_not);
    if (!ranks.speaks()) return;
    document.health.available = true;
    document.health.reason.clear();
    std::set<std::string> seen;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (!seen.insert(all[rank].node + " " + all[rank].id).second) continue;
        if (all[rank].node != all[0].node) {
            if (!healths[rank].empty()) document.health.elsewhere.push_back(Json::verbatim(healths[rank]));
            continue;
        }
        document.more_devices.push_back(Json::verbatim(devices[rank]));
        if (healths[rank].empty()) {
            document.health.available = false;
            document.health.reason = reasons[rank];
        } else {
            document.health.more_devices.push_back(Json::verbatim(healths[rank]));
        }
    }
}

}  // namespace tenken
