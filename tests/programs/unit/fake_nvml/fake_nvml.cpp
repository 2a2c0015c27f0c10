// A library with the part of NVML's interface that the suite uses, so that health can be tested without a
// GPU. Its one GPU has the values that fake_nvml_say() received last: "key=value key=value ...", the first of
// a key counts. A missing key is a quantity that the GPU does not support. fake_nvml_asked() returns how
// often one was read.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

namespace {

constexpr int success = 0;
constexpr int not_supported = 3;
constexpr int not_found = 6;
constexpr int insufficient_size = 7;
constexpr int timeout = 10;

std::mutex mutex;
std::string said;
std::map<std::string, long> asked;

bool find(const std::string& key, std::string& value) {
    const std::lock_guard<std::mutex> lock(mutex);  // a monitor reads from its own thread
    ++asked[key];
    std::istringstream words(said);
    std::string word;
    while (words >> word) {
        if (word.compare(0, key.size() + 1, key + "=") != 0) continue;
        value = word.substr(key.size() + 1);
        return true;
    }
    return false;
}

template <typename Number>
int number(const std::string& key, Number* out) {
    std::string text;
    if (!find(key, text)) return not_supported;
    *out = static_cast<Number>(std::strtoull(text.c_str(), nullptr, 10));
    return success;
}

int text_into(const std::string& key, char* out, unsigned size) {
    std::string text;
    if (!find(key, text)) return not_supported;
    std::snprintf(out, size, "%s", text.c_str());
    return success;
}

struct Process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
struct Memory {
    unsigned long long total, free, used;
};
struct Utilization {
    unsigned gpu, memory;
};
struct Field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, result;
    unsigned long long value;
};
struct Event {
    void* device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

int the_gpu = 0;
int the_set = 0;

}  // namespace

extern "C" {

long fake_nvml_asked(const char* key) {
    const std::lock_guard<std::mutex> lock(mutex);
    return asked[key];
}

void fake_nvml_say(const char* text) {
    const std::lock_guard<std::mutex> lock(mutex);
    said = text;
}

int nvmlInit_v2() {
    std::string code;
    return find("init", code) ? std::atoi(code.c_str()) : success;
}
int nvmlShutdown() {
    return success;
}
const char* nvmlErrorString(int code) {
    return code == 9 ? "Driver Not Loaded" : "an error";
}
int nvmlSystemGetDriverVersion(char* out, unsigned size) {
    return text_into("driver", out, size);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
    std::string known;
    if (!find("pci", known) || known != id) return not_found;
    *device = &the_gpu;
    return success;
}
int nvmlDeviceGetVbiosVersion(void*, char* out, unsigned size) {
    return text_into("vbios", out, size);
}
int nvmlDeviceGetSerial(void*, char* out, unsigned size) {
    return text_into("serial", out, size);
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* out) {
    return number("power_limit_mw", out);
}
int nvmlDeviceGetPersistenceMode(void*, int* out) {
    return number("persistence", out);
}
// NVML_CLOCK_SM is 1, NVML_CLOCK_MEM 2
int nvmlDeviceGetClockInfo(void*, int type, unsigned* out) {
    return number(type == 1 ? "sm_clock" : type == 2 ? "memory_clock" : "", out);
}
int nvmlDeviceGetMaxClockInfo(void*, int type, unsigned* out) {
    return number(type == 1 ? "sm_clock_max" : type == 2 ? "memory_clock_max" : "", out);
}
int nvmlDeviceGetPowerUsage(void*, unsigned* out) {
    return number("power_mw", out);
}
int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* out) {
    return number("energy_mj", out);
}
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* out) {
    return number(sensor == 0 ? "temperature" : "", out);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* out) {
    return number("reasons", out);
}
int nvmlDeviceGetEccMode(void*, unsigned* now, unsigned* later) {
    number("ecc_later", later);
    return number("ecc", now);
}
// 0 since the driver was loaded, 1 over the lifetime
int nvmlDeviceGetTotalEccErrors(void*, int error, int counter, unsigned long long* out) {
    return number(counter != 0 ? "" : error == 0 ? "ecc_corrected" : "ecc_uncorrected", out);
}
int nvmlDeviceGetRemappedRows(void*, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failure) {
    number("remapped_uncorrectable", uncorrected);
    number("remapping_pending", pending);
    number("remapping_failed", failure);
    return number("remapped", corrected);
}
int nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* later) {
    number("mig_later", later);
    return number("mig", now);
}
int nvmlDeviceGetCurrPcieLinkGeneration(void*, unsigned* out) {
    return number("pcie_generation", out);
}
int nvmlDeviceGetCurrPcieLinkWidth(void*, unsigned* out) {
    return number("pcie_width", out);
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* out) {
    return number("pcie_generation_max", out);
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* out) {
    return number("pcie_width_max", out);
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* out) {
    unsigned active = 0;
    if (number("nvlinks_active", &active) != success) return not_supported;
    *out = link < active ? 1 : 0;
    return success;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* out) {
    number("memory_total", &out->total);
    number("memory_free", &out->free);
    return number("memory_used", &out->used);
}
int nvmlDeviceGetUtilizationRates(void*, Utilization* out) {
    number("utilization_of_memory", &out->memory);
    return number("utilization", &out->gpu);
}
int nvmlDeviceGetFieldValues(void*, int count, Field* fields) {
    for (int i = 0; i < count; ++i) {
        const std::string key = "field_" + std::to_string(fields[i].id);
        fields[i].type = 3;
        fields[i].result = number(key, &fields[i].value);
    }
    return success;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
    std::string list;
    if (!find("pids", list)) return not_supported;
    std::istringstream words(list);
    std::string word;
    unsigned found = 0;
    while (std::getline(words, word, ',')) {
        if (found < *count) processes[found].pid = static_cast<unsigned>(std::atoi(word.c_str()));
        ++found;
    }
    const bool fits = found <= *count;
    *count = found;
    return fits ? success : insufficient_size;
}
int nvmlEventSetCreate(void** set) {
    *set = &the_set;
    return success;
}
int nvmlEventSetFree(void*) {
    return success;
}
int nvmlDeviceRegisterEvents(void*, unsigned long long, void*) {
    unsigned xid = 0;
    return number("xid", &xid);
}
/// One event each time the value of xid changes to a nonzero value.
int nvmlEventSetWait_v2(void*, Event* event, unsigned) {
    static unsigned last = 0;
    unsigned xid = 0;
    number("xid", &xid);
    const bool is_new = xid != 0 && xid != last;
    last = xid;
    if (!is_new) return timeout;
    event->type = 8;
    event->data = xid;
    return success;
}

}  // extern "C"
