#include "lib/cuda/rank_gpu.h"

#include <algorithm>
#include <vector>

#include "lib/base/gpu_selection.h"
#include "lib/base/known_ranks.h"
#include "lib/base/program.h"
#include "lib/cuda/devices.h"

namespace tenken {
namespace cuda {

void RankGpu::options(Arguments& arguments, const std::string& help) {
    arguments.text("gpus", asked_, "LIST", help);
}

void RankGpu::prepare(const Arguments& arguments, Ranks& ranks, bool may_share) {
    std::vector<int> indices;
    try {
        indices = parse_gpu_list(asked_, device_count());
    } catch (const ArgumentError& wrong) {
        throw arguments.error("gpus", wrong.what());
    }
    sharing_ = (static_cast<std::uint64_t>(ranks.local_size()) + indices.size() - 1) / indices.size();
    if (sharing_ > 1 && !may_share) {
        throw Waived(Waiver::needs_two_gpus, std::to_string(ranks.local_size()) + " ranks on a node with " +
                                                 std::to_string(indices.size()) +
                                                 " GPUs; each rank needs one");
    }
    const std::shared_ptr<const Nvml> nvml = Nvml::open(why_no_nvml_);
    const int index = indices[static_cast<std::size_t>(ranks.local_rank()) % indices.size()];
    gpu_.reset(new Gpu(describe(index, nvml.get()), nvml));
    gpu().use();
    if (!may_share) know_each_other(ranks);
}

void RankGpu::watch(const std::function<void()>& work) {
    const TimedPart watched(gpu());
    work();
}

void RankGpu::report(Document& document, Ranks& ranks) {
    describe_build(document.build);
    std::string why_not;
    std::string health;
    if (gpu().health().why_not()) {
        why_not = why_no_nvml_.empty() ? *gpu().health().why_not() : why_no_nvml_;
    } else {
        health = gpu().health().finish().json().dump();
    }
    const std::vector<std::string> devices = ranks.gather(gpu().description().json().dump());
    const std::vector<std::string> healths = ranks.gather(health);
    const std::vector<std::string> reasons = ranks.gather(why_not);
    const std::vector<std::string> indices = ranks.gather(std::to_string(gpu().index()));
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

}  // namespace cuda
}  // namespace tenken
