#include "lib/lu/rank_gpu.h"

#include <unistd.h>

#include <sstream>
#include <vector>

#include "lib/base/gpu_selection.h"
#include "lib/base/program.h"
#include "lib/cuda/devices.h"

namespace lu {

namespace {

/// The processes of the other ranks do not count as other users of the GPU.
void know_each_other(Ranks& ranks) {
    std::string text;
    for (const std::string& pid : ranks.gather(std::to_string(getpid()))) text += pid + "\n";
    std::istringstream all(ranks.broadcast(text));
    std::vector<int> pids;
    for (int pid = 0; all >> pid;) pids.push_back(pid);
    tenken::set_processes_of_run(pids);
}

}  // namespace

void RankGpu::options(tenken::Arguments& arguments) {
    arguments.text("gpus", asked_, "LIST",
                   "which GPUs, by CUDA index: all, or a list such as 0,2; each rank of a node takes one");
}

void RankGpu::prepare(const tenken::Arguments& arguments, Ranks& ranks) {
    std::vector<int> indices;
    const int count = tenken::cuda::device_count();
    try {
        indices = tenken::parse_gpu_list(asked_, count);
    } catch (const tenken::ArgumentError& wrong) {
        throw arguments.error("gpus", wrong.what());
    }
    if (static_cast<std::size_t>(ranks.local_size()) > indices.size()) {
        const std::string detail = std::to_string(ranks.local_size()) + " ranks on a node with " +
                                   std::to_string(indices.size()) + " GPUs; each rank needs one";
        throw tenken::Waived(tenken::Waiver::needs_two_gpus, detail);
    }
    const std::shared_ptr<const tenken::Nvml> nvml = tenken::Nvml::open(why_no_nvml_);
    const int index = indices[static_cast<std::size_t>(ranks.local_rank())];
    gpu_.reset(new tenken::cuda::Gpu(tenken::cuda::describe(index, nvml.get()), nvml));
    gpu().use();
    know_each_other(ranks);
}

void RankGpu::watch(const std::function<void()>& work) {
    const tenken::cuda::TimedPart watched(gpu());
    work();
}

void RankGpu::report(tenken::Document& document, Ranks& ranks) {
    tenken::cuda::describe_build(document.build);
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
    if (!ranks.speaks()) return;
    const std::vector<std::string> nodes = ranks.nodes();
    document.health.available = true;
    document.health.reason.clear();
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
        if (rank < nodes.size() && nodes[rank] != nodes[0]) continue;
        document.more_devices.push_back(tenken::Json::verbatim(devices[rank]));
        if (healths[rank].empty()) {
            document.health.available = false;
            document.health.reason = reasons[rank];
        } else {
            document.health.more_devices.push_back(tenken::Json::verbatim(healths[rank]));
        }
    }
}

}  // namespace lu
