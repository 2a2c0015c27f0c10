// NVML, loaded at run time: the driver's data on its GPUs. Programs are not linked with it, because they
// must start on machines without a driver; the declarations required are in nvml.cpp.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/device.h"
#include "lib/base/dynlib.h"
#include "lib/base/optional.h"

namespace tenken {

/// One NVLink port of a GPU and its remote end.
struct NvLink {
    enum class End { gpu, nvswitch, unknown };
    int index = 0;
    bool active = false;
    End end = End::unknown;
    Optional<std::string> remote_pci_bus_id;  ///< remote end of an active link, e.g. "0000:1b:00"
};

class Nvml {
  public:
    typedef void* Device;  ///< NVML's opaque handle
    struct Functions;

    /// Loads the library named by the environment variable TENKEN_NVML (for tests), else libnvidia-ml.so.1.
    /// @return nothing if it cannot be loaded, with the reason in `why_not` (Jetson boards have none)
    static std::shared_ptr<const Nvml> open(std::string& why_not);
    ~Nvml();
    Nvml(const Nvml&) = delete;
    Nvml& operator=(const Nvml&) = delete;

    /// The GPU at a PCI address such as 0000:01:00.0. @return null, with the reason in `why_not`
    Device find(const std::string& pci_bus_id, std::string& why_not) const;
    /// Fills in the values that only NVML reports: driver, VBIOS, maximum clocks, ECC, MIG, PCIe, NVLinks.
    void describe(Device device, DeviceDescription& description) const;
    /// The NVLinks of a GPU, active or not, and their remote ends; empty if it has or reports none.
    std::vector<NvLink> links(Device device) const;
    /// One reading; values that this GPU or driver does not report are absent.
    /// @param with_links also the NVLinks, which are queried one by one and take milliseconds
    HealthSample read(Device device, bool with_links = true) const;

    /// Energy consumed by the GPU since the driver was loaded, in joules
    /// (nvmlDeviceGetTotalEnergyConsumption: from Volta on; it advances in large steps, every 0.1 s on an
    /// H200). Absent if not counted.
    Optional<double> energy_joules(Device device) const;
    /// The current power in watts (NVML_FI_DEV_POWER_INSTANT), otherwise the driver's average.
    Optional<double> power_watts(Device device) const;

    /// Collects the XIDs (the driver's error reports) of one GPU from construction on.
    class XidWatch {
      public:
        XidWatch(const Nvml& nvml, Device device);
        ~XidWatch();
        XidWatch(const XidWatch&) = delete;
        XidWatch& operator=(const XidWatch&) = delete;
        bool readable() const { return set_ != nullptr; }
        /// The XIDs reported since the last call, without waiting.
        std::vector<int> fetch();

      private:
        const Nvml& nvml_;
        void* set_ = nullptr;
    };

  private:
    Nvml() = default;
    Optional<int> nvlinks(Device device, bool only_active) const;
    Optional<double> field(Device device, unsigned id, unsigned scope) const;

    DynamicLibrary library_;
    std::unique_ptr<Functions> call_;
};

/// The processes of this node that belong to this run, including this one: not counted as other processes on
/// a GPU. Without this call it is only this process. To be called before monitoring of health starts.
void set_processes_of_run(const std::vector<int>& pids);

/// NVML's names of the bits of a clock event reason mask, in lower case: gpu_idle, sw_power_cap, ...
/// A bit without a name becomes "bit_N".
std::vector<std::string> clock_event_reasons(unsigned long long mask);

}  // namespace tenken
