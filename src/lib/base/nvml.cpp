#include "lib/base/nvml.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace tenken {

namespace {

// From NVML's documented interface: only the values and layouts used in this file.
constexpr int success = 0;
constexpr int insufficient_size = 7;
constexpr int clock_sm = 1;
constexpr int clock_memory = 2;
constexpr int temperature_gpu = 0;
constexpr int ecc_corrected = 0;
constexpr int ecc_uncorrected = 1;
constexpr int ecc_volatile = 0;
constexpr unsigned long long event_xid = 8;
constexpr unsigned field_memory_temperature = 82;
constexpr unsigned field_nvlink_speed_common = 90;
constexpr unsigned field_nvlink_count = 91;
constexpr unsigned field_nvlink_speed = 164;  ///< scope: the link

constexpr unsigned field_power_instant = 186;  ///< milliwatts

struct Memory {
    unsigned long long total, free, used;
};
struct Utilization {
    unsigned gpu, memory;
};
struct Process {  // version 2 of the structure, which the _v2 and _v3 functions fill
    unsigned pid;
    unsigned long long used_memory;
    unsigned gpu_instance, compute_instance;
};
struct Event {
    void* device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};
struct Pci {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
struct Field {
    unsigned id, scope;
    long long timestamp, latency;
    int type;  ///< 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 signed long long, 5 int
    int result;
    union {
        double real;
        int signed_int;
        unsigned unsigned_int;
        unsigned long unsigned_long;
        unsigned long long unsigned_long_long;
        long long signed_long_long;
    } value;
};

}  // namespace

struct Nvml::Functions {
    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    const char* (*error_string)(int) = nullptr;
    int (*driver_version)(char*, unsigned) = nullptr;
    int (*by_pci)(const char*, Device*) = nullptr;
    int (*vbios)(Device, char*, unsigned) = nullptr;
    int (*serial)(Device, char*, unsigned) = nullptr;
    int (*power_limit)(Device, unsigned*) = nullptr;
    int (*persistence)(Device, int*) = nullptr;
    int (*clock)(Device, int, unsigned*) = nullptr;
    int (*max_clock)(Device, int, unsigned*) = nullptr;
    int (*power)(Device, unsigned*) = nullptr;
    int (*energy)(Device, unsigned long long*) = nullptr;
    int (*temperature)(Device, int, unsigned*) = nullptr;
    int (*reasons)(Device, unsigned long long*) = nullptr;
    int (*ecc_mode)(Device, unsigned*, unsigned*) = nullptr;
    int (*ecc_total)(Device, int, int, unsigned long long*) = nullptr;
    int (*remapped)(Device, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
    int (*mig_mode)(Device, unsigned*, unsigned*) = nullptr;
    int (*pcie_generation)(Device, unsigned*) = nullptr;
    int (*pcie_width)(Device, unsigned*) = nullptr;
    int (*pcie_generation_max)(Device, unsigned*) = nullptr;
    int (*pcie_width_max)(Device, unsigned*) = nullptr;
    int (*nvlink_state)(Device, unsigned, unsigned*) = nullptr;
    int (*nvlink_remote_pci)(Device, unsigned, Pci*) = nullptr;
    int (*nvlink_remote_type)(Device, unsigned, int*) = nullptr;
    int (*processes)(Device, unsigned*, Process*) = nullptr;
    int (*memory)(Device, Memory*) = nullptr;
    int (*utilization)(Device, Utilization*) = nullptr;
    int (*fields)(Device, int, Field*) = nullptr;
    int (*event_set_create)(void**) = nullptr;
    int (*event_set_free)(void*) = nullptr;
    int (*event_register)(Device, unsigned long long, void*) = nullptr;
    int (*event_wait)(void*, Event*, unsigned) = nullptr;
};

namespace {

/// The result of an NVML function with one output, nothing if it is missing or fails.
template <typename Value, typename Function, typename... Arguments>
Optional<Value> ask(Function function, Arguments... arguments) {
    Value value{};
    if (function == nullptr || function(arguments..., &value) != success) return {};
    return value;
}

template <typename To, typename From>
Optional<To> as(const Optional<From>& value) {
    if (!value) return {};
    return static_cast<To>(*value);
}

double scaled(unsigned value, double factor) {
    return static_cast<double>(value) * factor;
}

std::vector<int>& processes_of_run() {
    static std::vector<int> pids = {static_cast<int>(getpid())};
    return pids;
}

/// Processes with a context on the GPU, without those of this run. In a container NVML may report PIDs of
/// another namespace. The processes of this run are then included, because they cannot be recognised.
int others_among(const std::vector<Process>& processes) {
    const std::vector<int>& own = processes_of_run();
    int others = 0;
    bool seen = false;
    for (const Process& process : processes) {
        if (std::find(own.begin(), own.end(), static_cast<int>(process.pid)) != own.end()) {
            seen = true;
        } else {
            ++others;
        }
    }
    return seen ? others : std::max(0, others - static_cast<int>(own.size()));
}

}  // namespace

void set_processes_of_run(const std::vector<int>& pids) {
    processes_of_run() = pids;
}

std::vector<std::string> clock_event_reasons(unsigned long long mask) {
    static const char* const names[] = {"gpu_idle",
                                        "applications_clocks_setting",
                                        "sw_power_cap",
                                        "hw_slowdown",
                                        "sync_boost",
                                        "sw_thermal_slowdown",
                                        "hw_thermal_slowdown",
                                        "hw_power_brake_slowdown",
                                        "display_clock_setting"};
    constexpr int known = static_cast<int>(sizeof names / sizeof *names);
    std::vector<std::string> reasons;
    for (int bit = 0; bit < 64; ++bit) {
        if ((mask >> bit & 1) == 0) continue;
        reasons.push_back(bit < known ? names[bit] : "bit_" + std::to_string(bit));
    }
    return reasons;
}

std::shared_ptr<const Nvml> Nvml::open(std::string& why_not) {
    std::string error;
    const DynamicLibrary library =
        DynamicLibrary::open_first(DynamicLibrary::names("TENKEN_NVML", {"libnvidia-ml.so.1"}), error);
    if (!library) {
        why_not =
            "NVML cannot be loaded (not available on Jetson boards and machines without a driver): " + error;
        return nullptr;
    }
    std::shared_ptr<Nvml> nvml(new Nvml);
    nvml->library_ = library;
    nvml->call_.reset(new Functions);
    Functions& f = *nvml->call_;
    library.load(f.error_string, "nvmlErrorString");
    library.load(f.shutdown, "nvmlShutdown");
    library.load(f.driver_version, "nvmlSystemGetDriverVersion");
    library.load(f.vbios, "nvmlDeviceGetVbiosVersion");
    library.load(f.serial, "nvmlDeviceGetSerial");
    library.load(f.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    library.load(f.persistence, "nvmlDeviceGetPersistenceMode");
    library.load(f.clock, "nvmlDeviceGetClockInfo");
    library.load(f.max_clock, "nvmlDeviceGetMaxClockInfo");
    library.load(f.power, "nvmlDeviceGetPowerUsage");
    library.load(f.energy, "nvmlDeviceGetTotalEnergyConsumption");
    library.load(f.temperature, "nvmlDeviceGetTemperature");
    // Renamed in CUDA 12; older drivers have only the old name.
    library.load(f.reasons,
                 {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
    library.load(f.ecc_mode, "nvmlDeviceGetEccMode");
    library.load(f.ecc_total, "nvmlDeviceGetTotalEccErrors");
    library.load(f.remapped, "nvmlDeviceGetRemappedRows");
    library.load(f.mig_mode, "nvmlDeviceGetMigMode");
    library.load(f.pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
    library.load(f.pcie_width, "nvmlDeviceGetCurrPcieLinkWidth");
    library.load(f.pcie_generation_max, "nvmlDeviceGetMaxPcieLinkGeneration");
    library.load(f.pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth");
    library.load(f.nvlink_state, "nvmlDeviceGetNvLinkState");
    library.load(f.nvlink_remote_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    library.load(f.nvlink_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType");
    library.load(f.processes,
                 {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
    library.load(f.memory, "nvmlDeviceGetMemoryInfo");
    library.load(f.utilization, "nvmlDeviceGetUtilizationRates");
    library.load(f.fields, "nvmlDeviceGetFieldValues");
    library.load(f.event_set_create, "nvmlEventSetCreate");
    library.load(f.event_set_free, "nvmlEventSetFree");
    library.load(f.event_register, "nvmlDeviceRegisterEvents");
    library.load(f.event_wait, "nvmlEventSetWait_v2");
    if (!library.load(f.init, "nvmlInit_v2") || !library.load(f.by_pci, "nvmlDeviceGetHandleByPciBusId_v2")) {
        why_not =
            library.name() + " is not NVML:  nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2 is missing";
        return nullptr;
    }
    const int result = f.init();
    if (result != success) {
        why_not = "nvmlInit_v2 failed: ";
        why_not += f.error_string == nullptr ? "error " + std::to_string(result) : f.error_string(result);
        f.shutdown = nullptr;  // no effect to undo
        return nullptr;
    }
    return nvml;
}

Nvml::~Nvml() {
    if (call_ && call_->shutdown != nullptr) call_->shutdown();
    library_.close();
}

Nvml::Device Nvml::find(const std::string& pci_bus_id, std::string& why_not) const {
    Device device = nullptr;
    const int result = call_->by_pci(pci_bus_id.c_str(), &device);
    if (result == success) return device;
    why_not =
        "NVML does not list the GPU at " + pci_bus_id + ": " +
        (call_->error_string == nullptr ? "error " + std::to_string(result) : call_->error_string(result));
    return nullptr;
}

Optional<double> Nvml::field(Device device, unsigned id, unsigned scope) const {
    if (call_->fields == nullptr) return {};
    Field field{};
    field.id = id;
    field.scope = scope;
    if (call_->fields(device, 1, &field) != success || field.result != success) return {};
    switch (field.type) {
        case 0:
            return field.value.real;
        case 1:
            return static_cast<double>(field.value.unsigned_int);
        case 2:
            return static_cast<double>(field.value.unsigned_long);
        case 3:
            return static_cast<double>(field.value.unsigned_long_long);
        case 4:
            return static_cast<double>(field.value.signed_long_long);
        case 5:
            return static_cast<double>(field.value.signed_int);
        default:
            return {};
    }
}

/// Counts the links, all or the active ones; absent if the GPU has no such interface.
Optional<int> Nvml::nvlinks(Device device, bool only_active) const {
    const Optional<double> told = field(device, field_nvlink_count, 0);
    const auto maximum = static_cast<unsigned>(told.value_or(18));
    int links = 0;
    int active = 0;
    for (unsigned link = 0; link < maximum; ++link) {
        const Optional<unsigned> state = ask<unsigned>(call_->nvlink_state, device, link);
        if (!state) continue;
        ++links;
        active += *state != 0 ? 1 : 0;
    }
    if (links == 0 && !told) return {};
    return only_active ? active : links;
}

std::vector<NvLink> Nvml::links(Device device) const {
    constexpr int type_gpu = 0;
    constexpr int type_switch = 2;
    const auto maximum = static_cast<unsigned>(field(device, field_nvlink_count, 0).value_or(18));
    std::vector<NvLink> links;
    for (unsigned index = 0; index < maximum; ++index) {
        const Optional<unsigned> state = ask<unsigned>(call_->nvlink_state, device, index);
        if (!state) continue;
        NvLink link;
        link.index = static_cast<int>(index);
        link.active = *state != 0;
        const Optional<int> type = ask<int>(call_->nvlink_remote_type, device, index);
        if (type && *type == type_gpu) link.end = NvLink::End::gpu;
        if (type && *type == type_switch) link.end = NvLink::End::nvswitch;
        const Optional<Pci> remote = ask<Pci>(call_->nvlink_remote_pci, device, index);
        if (link.active && remote) {
            char address[48];
            std::snprintf(address, sizeof address, "%04x:%02x:%02x", remote->domain, remote->bus,
                          remote->device);
            link.remote_pci_bus_id = std::string(address);
        }
        links.push_back(link);
    }
    return links;
}

void Nvml::describe(Device device, DeviceDescription& description) const {
    char text[96] = "";
    if (call_->driver_version != nullptr && call_->driver_version(text, sizeof text) == success) {
        description.driver = std::string(text);
    }
    if (call_->vbios != nullptr && call_->vbios(device, text, sizeof text) == success) {
        description.vbios = std::string(text);
    }
    if (call_->serial != nullptr && call_->serial(device, text, sizeof text) == success && *text != '\0') {
        description.serial = std::string(text);
    }
    const Optional<double> power_limit = as<double>(ask<unsigned>(call_->power_limit, device));
    if (power_limit) description.power_limit_w = *power_limit / 1000;
    const Optional<int> persistence = ask<int>(call_->persistence, device);
    if (persistence) description.persistence_mode = *persistence != 0;
    const Optional<double> memory_clock = as<double>(ask<unsigned>(call_->max_clock, device, clock_memory));
    if (memory_clock) description.memory_clock_max_mhz = memory_clock;
    const Optional<double> sm_clock = as<double>(ask<unsigned>(call_->max_clock, device, clock_sm));
    if (sm_clock) description.sm_clock_max_mhz = sm_clock;
    unsigned now = 0;
    unsigned later = 0;
    if (call_->ecc_mode != nullptr && call_->ecc_mode(device, &now, &later) == success) {
        description.ecc_enabled = now != 0;
    }
    if (call_->mig_mode != nullptr && call_->mig_mode(device, &now, &later) == success) {
        description.mig_enabled = now != 0;
    }
    const Optional<int> generation = as<int>(ask<unsigned>(call_->pcie_generation_max, device));
    if (generation && *generation > 0) description.pcie_generation_max = generation;
    const Optional<int> width = as<int>(ask<unsigned>(call_->pcie_width_max, device));
    if (width && *width > 0) description.pcie_width_max = width;
    description.nvlinks_total = nvlinks(device, false);
    description.nvlinks_active = nvlinks(device, true);
    if (description.nvlinks_active && *description.nvlinks_active > 0) {
        Optional<double> speed = field(device, field_nvlink_speed_common, 0);  // MB/s
        if (!speed || *speed <= 0) speed = field(device, field_nvlink_speed, 0);
        if (speed && *speed > 0) description.nvlink_gbs_per_link = *speed / 1000;
    }
}

HealthSample Nvml::read(Device device, bool with_links) const {
    HealthSample sample;
    sample.sm_clock_mhz = as<double>(ask<unsigned>(call_->clock, device, clock_sm));
    sample.memory_clock_mhz = as<double>(ask<unsigned>(call_->clock, device, clock_memory));
    const Optional<unsigned> milliwatts = ask<unsigned>(call_->power, device);
    if (milliwatts) sample.power_w = scaled(*milliwatts, 1e-3);
    sample.temperature_c = as<double>(ask<unsigned>(call_->temperature, device, temperature_gpu));
    sample.memory_temperature_c = field(device, field_memory_temperature, 0);
    sample.reasons = clock_event_reasons(ask<unsigned long long>(call_->reasons, device).value_or(0));
    sample.ecc_corrected =
        as<std::int64_t>(ask<unsigned long long>(call_->ecc_total, device, ecc_corrected, ecc_volatile));
    sample.ecc_uncorrected =
        as<std::int64_t>(ask<unsigned long long>(call_->ecc_total, device, ecc_uncorrected, ecc_volatile));
    unsigned corrected = 0;
    unsigned uncorrected = 0;
    unsigned pending = 0;
    unsigned failure = 0;
    if (call_->remapped != nullptr &&
        call_->remapped(device, &corrected, &uncorrected, &pending, &failure) == success) {
        sample.remapped_rows_correctable = static_cast<std::int64_t>(corrected);
        sample.remapped_rows_uncorrectable = static_cast<std::int64_t>(uncorrected);
        sample.remapping_pending = pending != 0;
        sample.remapping_failed = failure != 0;
    }
    sample.pcie_generation = as<int>(ask<unsigned>(call_->pcie_generation, device));
    sample.pcie_width = as<int>(ask<unsigned>(call_->pcie_width, device));
    if (with_links) sample.nvlinks_active = nvlinks(device, true);
    if (call_->processes != nullptr) {
        std::vector<Process> processes(64);
        unsigned count = 64;
        int result = call_->processes(device, &count, processes.data());
        if (result == insufficient_size) {
            processes.resize(count + 16);
            count += 16;
            result = call_->processes(device, &count, processes.data());
        }
        if (result == success) {
            processes.resize(std::min<std::size_t>(count, processes.size()));
            sample.other_processes = others_among(processes);
        }
    }
    const Optional<Memory> memory = ask<Memory>(call_->memory, device);
    if (memory) sample.memory_used_bytes = static_cast<std::int64_t>(memory->used);
    const Optional<Utilization> utilization = ask<Utilization>(call_->utilization, device);
    if (utilization) sample.utilization_percent = static_cast<double>(utilization->gpu);
    return sample;
}

Optional<double> Nvml::energy_joules(Device device) const {
    const Optional<unsigned long long> millijoules = ask<unsigned long long>(call_->energy, device);
    if (!millijoules) return {};
    return static_cast<double>(*millijoules) * 1e-3;
}

Optional<double> Nvml::power_watts(Device device) const {
    Optional<double> milliwatts = field(device, field_power_instant, 0);
    if (!milliwatts || *milliwatts <= 0) milliwatts = as<double>(ask<unsigned>(call_->power, device));
    if (!milliwatts) return {};
    return *milliwatts * 1e-3;
}

Nvml::XidWatch::XidWatch(const Nvml& nvml, Device device) : nvml_(nvml) {
    const Functions& call = *nvml_.call_;
    if (call.event_set_create == nullptr || call.event_set_free == nullptr ||
        call.event_register == nullptr || call.event_wait == nullptr ||
        call.event_set_create(&set_) != success) {
        set_ = nullptr;
        return;
    }
    if (call.event_register(device, event_xid, set_) != success) {
        call.event_set_free(set_);
        set_ = nullptr;
    }
}

Nvml::XidWatch::~XidWatch() {
    if (set_ != nullptr) nvml_.call_->event_set_free(set_);
}

std::vector<int> Nvml::XidWatch::fetch() {
    std::vector<int> xids;
    Event event{};
    // Bounded, in case a driver reports endlessly.
    while (set_ != nullptr && xids.size() < 1000 && nvml_.call_->event_wait(set_, &event, 0) == success) {
        if ((event.type & event_xid) != 0) xids.push_back(static_cast<int>(event.data));
    }
    return xids;
}

}  // namespace tenken
