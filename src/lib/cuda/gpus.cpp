#include "lib/cuda/gpus.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <set>

#include "lib/base/gpu_selection.h"
#include "lib/base/known_ranks.h"
#include "lib/base/program.h"
#include "lib/base/rank_devices.h"
#include "lib/cuda/check.h"
#include "lib/cuda/devices.h"
#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

namespace {

/// What the monitoring itself took, and waits of the host that ended too late.
void report_monitoring(Document& document, double reading_seconds) {
    if (reading_seconds > 0) document.path("health_reading_ms", reading_seconds * 1e3);
    if (Gate::expired() > 0) document.path("gates_expired", static_cast<double>(Gate::expired()));
}

}  // namespace

Gpu::Gpu(DeviceDescription description, std::shared_ptr<const Nvml> nvml)
    : description_(std::move(description)),
      health_(nvml, description_.pci_bus_id.value_or(""), description_.index),
      energy_(std::move(nvml), description_.pci_bus_id.value_or("")) {}

void Gpu::use() const {
    TENKEN_CUDA(cudaSetDevice(index()));
}

void Gpus::options(Arguments& arguments, bool with_at_once) {
    arguments.text("gpus", asked_, "LIST", "which GPUs, by CUDA index: all, or a list such as 0,2");
    if (with_at_once) {
        arguments.flag(
            "at-once", at_once_,
            "measure the GPUs all at the same time, each driven by a separate host thread, instead "
            "of one by one");
    }
}

void Gpus::options_of_ranks(Arguments& arguments) {
    arguments.text("gpus", asked_, "LIST",
                   "GPUs given to the ranks of a node in turn, by CUDA index: all, or a list such as 0,2");
}

void Gpus::prepare(const Arguments& arguments) {
    select(arguments);
    if (at_once_ && selected_.size() < 2) {
        throw Waived(Waiver::needs_two_gpus, "--at-once with 1 GPU measures what one by one measures");
    }
    open(selected_);
}

void Gpus::prepare(const Arguments& arguments, Ranks& ranks, bool may_share) {
    std::exception_ptr wrong;
    try {
        select(arguments);
        open({selected_[static_cast<std::size_t>(ranks.local_rank()) % selected_.size()]});
    } catch (...) {
        wrong = std::current_exception();  // the others wait below
    }
    const std::vector<RankDevice> all =
        devices_of_ranks(ranks, wrong ? nullptr : &list_.front()->description());
    if (!may_share) know_each_other(ranks);
    if (wrong) std::rethrow_exception(wrong);
    std::set<std::string> on_node;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (all[rank].node != all[static_cast<std::size_t>(ranks.rank())].node || all[rank].id.empty())
            continue;
        on_node.insert(all[rank].id);
        sharing_ = std::max(sharing_, static_cast<std::uint64_t>(sharing_of(all, rank)));
    }
    if (sharing_ > 1 && !may_share) {
        throw Waived(Waiver::needs_two_gpus, std::to_string(ranks.local_size()) + " ranks on a node with " +
                                                 std::to_string(on_node.size()) +
                                                 " GPUs; each rank needs one");
    }
}

void Gpus::select(const Arguments& arguments) {
    try {
        selected_ = parse_gpu_list(asked_, device_count());
    } catch (const ArgumentError& wrong) {
        throw arguments.error("gpus", wrong.what());
    }
}

void Gpus::open(const std::vector<int>& indices) {
    const std::shared_ptr<const Nvml> nvml = Nvml::open(why_no_nvml_);
    for (int index : indices) list_.emplace_back(new Gpu(describe(index, nvml.get()), nvml));
    list_.front()->use();
}

void Gpus::each(const std::function<void(Gpu&, DeviceWorker&)>& work) {
    parallel_for_devices(static_cast<int>(list_.size()), at_once_, [&](DeviceWorker& worker) {
        Gpu& gpu = *list_[static_cast<std::size_t>(worker.index())];
        gpu.use();
        work(gpu, worker);
    });
}

std::string Gpus::why_unwatched(Gpu& gpu) const {
    if (!gpu.health().why_not()) return "";
    return why_no_nvml_.empty() ? *gpu.health().why_not() : why_no_nvml_;
}

void Gpus::report(Document& document) {
    describe_build(document.build);
    document.health.available = true;
    document.health.reason.clear();
    double reading_seconds = 0;
    for (const std::unique_ptr<Gpu>& gpu : list_) {
        document.devices.push_back(gpu->description());
        const std::string why_not = why_unwatched(*gpu);
        if (!why_not.empty()) {
            document.health.available = false;
            document.health.reason = why_not;
            continue;
        }
        document.health.devices.push_back(gpu->health().finish());
        reading_seconds = std::max(reading_seconds, gpu->health().reading_seconds());
    }
    report_monitoring(document, reading_seconds);
}

void Gpus::report(Document& document, Ranks& ranks) {
    describe_build(document.build);
    Gpu& gpu = *list_.front();
    const std::string why_not = why_unwatched(gpu);
    Optional<DeviceHealth> health;
    if (why_not.empty()) health = gpu.health().finish();
    report_rank_devices(document, ranks, gpu.description(), health, why_not);
    report_monitoring(document, why_not.empty() ? gpu.health().reading_seconds() : 0);
}

}  // namespace cuda
}  // namespace tenken
