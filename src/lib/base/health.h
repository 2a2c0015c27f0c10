// Watching a GPU while it is measured.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lib/base/device.h"
#include "lib/base/nvml.h"

namespace tenken {

/// Reads the health of one GPU before, during and after its timed part. During the timed part a thread of
/// its own reads, slowly and bound to a CPU that is not the caller's, so that it does not disturb what is
/// timed. Without NVML all calls do nothing.
class HealthMonitor {
  public:
    /// Reads `before`. The process must have its context on the GPU already, which is how it is told from
    /// others.
    /// @param nvml may be null
    /// @param index of the GPU in the document
    /// @param interval_seconds between two readings of the timed part
    HealthMonitor(std::shared_ptr<const Nvml> nvml, const std::string& pci_bus_id, int index,
                  double interval_seconds = 0.05);
    ~HealthMonitor();
    HealthMonitor(const HealthMonitor&) = delete;
    HealthMonitor& operator=(const HealthMonitor&) = delete;

    /// The timed part begins; it may begin and end several times.
    void start();
    /// The timed part ends: waits for the reading under way, if any.
    void stop();
    /// Reads `after` and gives everything.
    DeviceHealth finish();

    /// Absent when the GPU can be read, else why it cannot.
    const Optional<std::string>& why_not() const { return why_not_; }
    /// The mean duration of one reading of the timed part, in seconds; 0 when there was none.
    double reading_seconds() const;

  private:
    void watch(int avoid_cpu);
    void fetch_xids();

    std::shared_ptr<const Nvml> nvml_;
    Nvml::Device device_ = nullptr;
    double interval_seconds_;
    Optional<std::string> why_not_;
    DeviceHealth health_;
    std::vector<int> xids_;
    std::unique_ptr<Nvml::XidWatch> xid_watch_;
    double seconds_reading_ = 0;

    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool running_ = false;
};

/// Takes a reading into the worst of a timed part: lowest clocks, utilization and active NVLinks, highest
/// everything else, the union of the reasons.
/// @param first whether this is the first reading
void fold_worst(HealthSample& worst, const HealthSample& reading, bool first);

}  // namespace tenken
