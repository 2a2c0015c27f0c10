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
    /// Finds and describes the selected GPUs and creates a context on each; the first one is then current.
    /// @throws ArgumentError for an invalid --gpus; Waived for --at-once with one GPU; std::runtime_error as
    /// device_count() and describe()
    void prepare(const Arguments& arguments);

    std::vector<std::unique_ptr<Gpu>>& list() { return list_; }
    const std::vector<std::unique_ptr<Gpu>>& list() const { return list_; }
    std::size_t size() const { return list_.size(); }
    bool at_once() const { return at_once_; }

    /// Calls work(gpu, member) for every GPU, one by one or, with --at-once, in one thread each; the GPU is
    /// current. member.together() synchronises those that run concurrently.
    void each(const std::function<void(Gpu&, DeviceWorker&)>& work);

    /// Writes devices, health and the CUDA part of `build` into the document, after the measurement.
    void report(Document& document);

  private:
    std::string asked_ = "all";
    bool at_once_ = false;
    std::string why_no_nvml_;
    std::vector<std::unique_ptr<Gpu>> list_;
};

}  // namespace cuda
}  // namespace tenken
