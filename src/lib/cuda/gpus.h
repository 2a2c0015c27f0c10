// The GPUs that a program measures: --gpus, --at-once, health, and their part of the document.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/energy.h"
#include "lib/base/health.h"
#include "lib/base/parallel_for_devices.h"
#include "lib/base/ranks.h"

namespace tenken {
namespace cuda {

/// One selected GPU. Its health is monitored between start() and stop() of health().
class Gpu {
  public:
    Gpu(DeviceDescription description, std::shared_ptr<const Nvml> nvml);
    int index() const { return description_.index; }
    const DeviceDescription& description() const { return description_; }
    HealthMonitor& health() { return health_; }
    EnergyMeter& energy() { return energy_; }
    /// Makes it the current GPU of the calling thread.
    void use() const;

  private:
    DeviceDescription description_;
    HealthMonitor health_;
    EnergyMeter energy_;
};

/// Monitors a GPU's health until the end of the block.
class TimedPart {
  public:
    explicit TimedPart(Gpu& gpu) : gpu_(gpu) { gpu_.health().start(); }
    ~TimedPart() { gpu_.health().stop(); }
    TimedPart(const TimedPart&) = delete;
    TimedPart& operator=(const TimedPart&) = delete;

  private:
    Gpu& gpu_;
};

class Gpus {
  public:
    /// Declares --gpus and, unless the program works on all of them together, --at-once.
    void options(Arguments& arguments, bool with_at_once = true);
    /// Declares --gpus of a program whose ranks take a GPU each.
    void options_of_ranks(Arguments& arguments);
    /// Finds and describes the selected GPUs and creates a context on each; the first one is then current.
    /// @throws ArgumentError for an invalid --gpus; Waived for --at-once with one GPU; std::runtime_error as
    /// device_count() and describe()
    void prepare(const Arguments& arguments);
    /// Finds this rank's GPU alone: the selected ones are given to the ranks of a node in turn. Ranks with a
    /// GPU each are registered with NVML as one run; those that may share one count as other users of it.
    /// Collective.
    /// @throws as above; Waived for more ranks than GPUs on a node that may not share
    void prepare(const Arguments& arguments, Ranks& ranks, bool may_share = false);
    /// The CUDA indices of all selected GPUs, those of other ranks included.
    const std::vector<int>& selected() const { return selected_; }
    /// The maximum number of ranks per GPU on this node.
    std::uint64_t sharing() const { return sharing_; }

    std::vector<std::unique_ptr<Gpu>>& list() { return list_; }
    const std::vector<std::unique_ptr<Gpu>>& list() const { return list_; }
    std::size_t size() const { return list_.size(); }
    bool at_once() const { return at_once_; }

    /// Calls work(gpu, member) for every GPU, one by one or, with --at-once, in one thread each; the GPU is
    /// current. member.together() synchronises those that run concurrently.
    void each(const std::function<void(Gpu&, DeviceWorker&)>& work);

    /// Writes devices, health and the CUDA part of `build` into the document, after the measurement.
    void report(Document& document);
    /// As above after prepare() for a rank: the GPUs of the ranks on the node of the one that prints.
    /// Collective.
    void report(Document& document, Ranks& ranks);

  private:
    void select(const Arguments& arguments);
    void open(const std::vector<int>& indices);
    /// Why the health of a GPU is unknown, "" if it is not.
    std::string why_unwatched(Gpu& gpu) const;

    std::string asked_ = "all";
    std::vector<int> selected_;
    std::uint64_t sharing_ = 1;
    bool at_once_ = false;
    std::string why_no_nvml_;
    std::vector<std::unique_ptr<Gpu>> list_;
};

}  // namespace cuda
}  // namespace tenken
