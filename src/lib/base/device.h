// A GPU's description and health as it reports them. Filled in by the CUDA part; part of the document.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/optional.h"

namespace tenken {

/// One entry of the document's `devices`. Absent: not reported by the device.
struct DeviceDescription {
    int index = 0;  ///< CUDA index within this process
    Optional<std::string> uuid;
    Optional<std::string> pci_bus_id;
    std::string name;
    std::string compute_capability;  ///< "9.0"
    int multiprocessors = 1;
    std::uint64_t memory_bytes = 1;
    std::uint64_t memory_free_bytes = 0;  ///< before the program's allocations
    std::uint64_t l2_bytes = 0;
    Optional<int> memory_bus_bits;
    Optional<double> memory_clock_mhz;
    Optional<double> memory_clock_max_mhz;
    Optional<double> sm_clock_max_mhz;
    Optional<bool> ecc_enabled;
    Optional<bool> mig_enabled;
    bool integrated = false;
    Optional<std::string> driver;
    std::string cuda_driver;
    std::string cuda_runtime;
    Optional<std::string> vbios;
    Optional<std::string> serial;    ///< of the board
    Optional<double> power_limit_w;  ///< the limit in force: the lowest of all that apply
    Optional<bool> persistence_mode;
    Optional<int> pcie_generation_max;
    Optional<int> pcie_width_max;
    Optional<int> pcie_generation_gpu;  ///< what the GPU can do, by the kernel
    Optional<int> pcie_width_gpu;
    Optional<std::string> pcie_bridge;  ///< PCI address of the bridge above the GPU
    Optional<int> pcie_generation_bridge;
    Optional<int> pcie_width_bridge;
    Optional<int> nvlinks_active;
    Optional<int> nvlinks_total;
    Optional<double> nvlink_gbs_per_link;  ///< one direction
    Optional<int> numa_node;
    bool managed_memory = false;
    bool concurrent_managed_access = false;
    bool pageable_memory_access = false;
    bool pageable_uses_host_page_tables = false;

    Json json() const;
};

/// One reading. Absent: not readable on this device.
struct HealthSample {
    Optional<double> sm_clock_mhz;
    Optional<double> memory_clock_mhz;
    Optional<double> power_w;
    Optional<double> temperature_c;
    Optional<double> memory_temperature_c;
    std::vector<std::string> reasons;  ///< clock event reasons by NVML's names in lower case
    Optional<std::int64_t> ecc_corrected;
    Optional<std::int64_t> ecc_uncorrected;
    Optional<std::int64_t> remapped_rows_correctable;
    Optional<std::int64_t> remapped_rows_uncorrectable;
    Optional<bool> remapping_pending;
    Optional<bool> remapping_failed;
    Optional<int> pcie_generation;
    Optional<int> pcie_width;
    Optional<int> nvlinks_active;
    Optional<int> other_processes;
    Optional<std::int64_t> memory_used_bytes;
    Optional<double> utilization_percent;

    Json json() const;
};

struct DeviceHealth {
    std::string node;  ///< if it is not that of the document
    int index = 0;
    HealthSample before;
    HealthSample after;
    HealthSample worst;  ///< during the timed part
    std::int64_t samples = 0;
    double seconds = 0;  ///< wall time of the timed part
    /// Utilisation once it no longer contains work of this run; only where other processes are on the GPU.
    Optional<double> others_percent;
    Optional<std::vector<int>> xids;  ///< absent if they cannot be read

    Json json() const;
};

/// The document's `health`.
struct Health {
    bool available = false;
    std::string reason = "no GPU is used";  ///< why there is none
    std::vector<DeviceHealth> devices;
    std::vector<Json> more_devices;  ///< as read by other processes
    std::vector<Json> elsewhere;     ///< GPUs of other nodes

    Json json() const;
};

}  // namespace tenken
