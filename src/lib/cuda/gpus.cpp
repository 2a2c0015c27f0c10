#include "lib/cuda/gpus.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "lib/base/gpu_selection.h"
#include "lib/base/program.h"
#include "lib/cuda/check.h"
#include "lib/cuda/devices.h"
#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

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

void Gpus::prepare(const Arguments& arguments) {
    const int count = device_count();
    std::vector<int> indices;
    try {
        indices = parse_gpu_list(asked_, count);
    } catch (const ArgumentError& wrong) {
        throw arguments.error("gpus", wrong.what());
    }
    if (at_once_ && indices.size() < 2) {
        throw Waived(Waiver::needs_two_gpus, "--at-once with 1 GPU measures what one by one measures");
    }
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

void Gpus::report(Document& document) {
    describe_build(document.build);
    document.health.available = true;
    document.health.reason.clear();
    double reading_seconds = 0;
    for (const std::unique_ptr<Gpu>& gpu : list_) {
        document.devices.push_back(gpu->description());
        if (gpu->health().why_not()) {
            document.health.available = false;
            document.health.reason = why_no_nvml_.empty() ? *gpu->health().why_not() : why_no_nvml_;
            continue;
        }
        document.health.devices.push_back(gpu->health().finish());
        reading_seconds = std::max(reading_seconds, gpu->health().reading_seconds());
    }
    if (reading_seconds > 0) document.path("health_reading_ms", reading_seconds * 1e3);
    if (Gate::expired() > 0) document.path("gates_expired", static_cast<double>(Gate::expired()));
}

}  // namespace cuda
}  // namespace tenken
