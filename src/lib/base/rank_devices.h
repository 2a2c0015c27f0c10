// The GPUs of several ranks in one document.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/document.h"

namespace tenken {

/// Writes every GPU of the node of the rank that prints, once, with its health: a document's devices are
/// those of one node. Called by all ranks together.
/// @tparam Ranks has gather() of texts, nodes() and speaks()
/// @param health what this rank read of its GPU, as a JSON object; empty if it could not
/// @param why_not then the reason
template <typename Ranks>
void report_rank_devices(Document& document, Ranks& ranks, const DeviceDescription& device,
                         const std::string& health, const std::string& why_not) {
    const std::vector<std::string> devices = ranks.gather(device.json().dump());
    const std::vector<std::string> healths = ranks.gather(health);
    const std::vector<std::string> reasons = ranks.gather(why_not);
    const std::vector<std::string> indices = ranks.gather(std::to_string(device.index));
    if (!ranks.speaks()) return;
    const std::vector<std::string> nodes = ranks.nodes();
    document.health.available = true;
    document.health.reason.clear();
    std::vector<std::string> seen;
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
        if (rank < nodes.size() && nodes[rank] != nodes[0]) continue;
        if (std::count(seen.begin(), seen.end(), indices[rank]) > 0) continue;
        seen.push_back(indices[rank]);
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
