// Monitoring of a GPU during a measurement.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/device.h"
#include "lib/base/nvml.h"
#include "lib/base/periodic_reader.h"

namespace tenken {

/// Reads the health of one GPU before, during and after its timed part. During the timed part a separate
/// thread reads at long intervals, bound to a CPU other than the caller's, so that it does not disturb the
/// measurement. Without NVML all calls do nothing.
class HealthMonitor {
  public:
    /// Reads `before`. The process must already have its context on the GPU, which distinguishes it from
    /// others.
    /// @param nvml may be null
    /// @param index of the GPU in the document
    /// @param interval_seconds between two readings during the timed part
    HealthMonitor(std::shared_ptr<const Nvml> nvml, const std::string& pci_bus_id, int index,
                  double interval_seconds = 0.05);

    /// The timed part begins; it may begin and end several times.
    void start();
    /// The timed part ends: waits for a reading in progress.
    void stop();
    /// Reads `after` and returns everything. Where other processes are on the GPU it waits until the driver's
    /// utilisation no longer contains this run's work, 1.3 s at most.
    DeviceHealth finish();

    /// Absent if the GPU can be read, otherwise the reason why not.
    const Optional<std::string>& why_not() const { return why_not_; }
    /// The mean duration of a reading during the timed part, in seconds; 0 if there was none.
    double reading_seconds() const;

  private:
    void read();
    void fetch_xids();
    Optional<double> utilisation_by_others() const;

    std::shared_ptr<const Nvml> nvml_;
    Nvml::Device device_ = nullptr;
    double interval_seconds_;
    Optional<std::string> why_not_;
    DeviceHealth health_;
    std::vector<int> xids_;
    std::unique_ptr<Nvml::XidWatch> xid_watch_;
    double seconds_reading_ = 0;
    double began_ = 0;  ///< start of the present timed part; 0 outside of one
    PeriodicReader reader_;
};

/// Merges a reading into the worst of the timed part: minimum clocks, utilisation and active NVLinks, maximum
/// of everything else, and all reasons.
/// @param first whether this is the first reading
void fold_worst(HealthSample& worst, const HealthSample& reading, bool first);

}  // namespace tenken
