#include "lib/base/device.h"

namespace tenken {

Json DeviceDescription::json() const {
    Json json = Json::object();
    json.set("index", index).set("uuid", uuid).set("pci_bus_id", pci_bus_id).set("name", name);
    json.set("compute_capability", compute_capability).set("multiprocessors", multiprocessors);
    json.set("memory_bytes", memory_bytes).set("memory_free_bytes", memory_free_bytes);
    json.set("l2_bytes", l2_bytes).set("memory_bus_bits", memory_bus_bits);
    json.set("memory_clock_mhz", memory_clock_mhz).set("memory_clock_max_mhz", memory_clock_max_mhz);
    json.set("sm_clock_max_mhz", sm_clock_max_mhz).set("ecc_enabled", ecc_enabled);
    json.set("mig_enabled", mig_enabled).set("integrated", integrated).set("driver", driver);
    json.set("cuda_driver", cuda_driver).set("cuda_runtime", cuda_runtime).set("vbios", vbios);
    json.set("serial", serial).set("power_limit_w", power_limit_w);
    json.set("persistence_mode", persistence_mode);
    json.set("pcie_generation_max", pcie_generation_max).set("pcie_width_max", pcie_width_max);
    json.set("pcie_generation_gpu", pcie_generation_gpu).set("pcie_width_gpu", pcie_width_gpu);
    json.set("pcie_bridge", pcie_bridge).set("pcie_generation_bridge", pcie_generation_bridge);
    json.set("pcie_width_bridge", pcie_width_bridge);
    json.set("nvlinks_active", nvlinks_active).set("nvlinks_total", nvlinks_total);
    json.set("nvlink_gbs_per_link", nvlink_gbs_per_link).set("numa_node", numa_node);
    json.set("managed_memory", managed_memory);
    json.set("concurrent_managed_access", concurrent_managed_access);
    json.set("pageable_memory_access", pageable_memory_access);
    json.set("pageable_uses_host_page_tables", pageable_uses_host_page_tables);
    return json;
}

Json HealthSample::json() const {
    Json json = Json::object();
    json.set("sm_clock_mhz", sm_clock_mhz).set("memory_clock_mhz", memory_clock_mhz);
    json.set("power_w", power_w).set("temperature_c", temperature_c);
    json.set("memory_temperature_c", memory_temperature_c).set("reasons", reasons);
    json.set("ecc_corrected", ecc_corrected).set("ecc_uncorrected", ecc_uncorrected);
    json.set("remapped_rows_correctable", remapped_rows_correctable);
    json.set("remapped_rows_uncorrectable", remapped_rows_uncorrectable);
    json.set("remapping_pending", remapping_pending).set("remapping_failed", remapping_failed);
    json.set("pcie_generation", pcie_generation).set("pcie_width", pcie_width);
    json.set("nvlinks_active", nvlinks_active).set("other_processes", other_processes);
    json.set("memory_used_bytes", memory_used_bytes).set("utilization_percent", utilization_percent);
    return json;
}

Json DeviceHealth::json() const {
    Json json = Json::object();
    json.set("index", index).set("before", before.json()).set("after", after.json());
    json.set("worst", worst.json()).set("samples", samples).set("seconds", seconds);
    if (others_percent) json.set("others_percent", *others_percent);
    if (xids) json.set("xids", *xids);
    if (!node.empty()) json.set("node", node);
    return json;
}

Json Health::json() const {
    Json list = Json::array();
    for (const DeviceHealth& device : devices) list.push(device.json());
    for (const Json& device : more_devices) list.push(device);
    Json json = Json::object();
    json.set("available", available);
    if (!available) json.set("reason", reason);
    json.set("devices", list);
    if (elsewhere.empty()) return json;
    Json others = Json::array();
    for (const Json& device : elsewhere) others.push(device);
    return json.set("elsewhere", others);
}

}  // namespace tenken
