#include "lib/base/host.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "lib/base/text_file.h"

namespace tenken {

namespace {

std::string cpu_folder(const std::string& root, int cpu) {
    return root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
}

std::vector<int> online_cpus(const std::string& root) {
    const Optional<std::string> online = read_text(root + "/sys/devices/system/cpu/online");
    std::vector<int> cpus;
    if (online) cpus = parse_cpu_list(*online);
    return cpus;
}

std::string os_name(const std::string& root) {
    std::istringstream lines(read_text(root + "/etc/os-release").value_or(""));
    std::string line;
    const std::string key = "PRETTY_NAME=";
    while (std::getline(lines, line)) {
        if (line.compare(0, key.size(), key) != 0) continue;
        std::string name = line.substr(key.size());
        name.erase(std::remove(name.begin(), name.end(), '"'), name.end());
        return name;
    }
    return "unknown";
}

std::string cpu_name(const std::string& cpuinfo, const std::string& architecture) {
    for (const char* key : {"model name", "cpu", "Model"}) {
        const Optional<std::string> name = field(cpuinfo, key);
        if (name && !name->empty()) return *name;
    }
    const Optional<std::string> part = field(cpuinfo, "CPU part");
    if (!part) return architecture;
    const std::string implementer = field(cpuinfo, "CPU implementer").value_or("unknown");
    // ARM reports only numbers; these are the cores of machines known to the suite.
    static const std::map<std::string, std::string> known = {
        {"0x41/0xd4f", "Arm Neoverse V2"}, {"0x41/0xd40", "Arm Neoverse V1"},
        {"0x41/0xd0c", "Arm Neoverse N1"}, {"0x41/0xd07", "Arm Cortex-A57"},
        {"0x4e/0x003", "NVIDIA Denver 2"}, {"0x4e/0x004", "NVIDIA Carmel"},
        {"0x46/0x001", "Fujitsu A64FX"}};
    const auto found = known.find(implementer + "/" + *part);
    return found != known.end() ? found->second : "ARM implementer " + implementer + " part " + *part;
}

/// The last-level caches are the data caches of the highest level; one shared by several CPUs counts
/// once.
Optional<std::uint64_t> last_level_cache(const std::vector<int>& cpus, const std::string& root) {
    std::map<std::uint64_t, std::map<std::string, std::uint64_t>> size_by_level_and_sharers;
    for (int cpu : cpus) {
        const std::string folder = cpu_folder(root, cpu) + "/cache";
        for (int index : numbered_entries(folder, "index")) {
            const std::string cache = folder + "/index" + std::to_string(index) + "/";
            const Optional<std::uint64_t> level = read_number(cache + "level");
            const std::string size = read_text(cache + "size").value_or("");
            const std::string type = read_text(cache + "type").value_or("");
            if (!level || size.empty() || type == "Instruction") continue;
            std::uint64_t bytes = std::strtoull(size.c_str(), nullptr, 10);
            if (size.back() == 'K') bytes *= 1024;
            if (size.back() == 'M') bytes *= 1024 * 1024;
            const std::string sharers =
                read_text(cache + "shared_cpu_list").value_or("cpu" + std::to_string(cpu));
            size_by_level_and_sharers[*level][sharers] = bytes;
        }
    }
    if (size_by_level_and_sharers.empty()) return {};
    std::uint64_t total = 0;
    for (const auto& cache : size_by_level_and_sharers.rbegin()->second) total += cache.second;
    if (total == 0) return {};
    return total;
}

Optional<int> count_sockets(const std::vector<int>& cpus, const std::string& root) {
    std::set<std::string> packages;
    for (int cpu : cpus) {
        const auto package = read_text(cpu_folder(root, cpu) + "/topology/physical_package_id");
        // -1: not reported by the firmware (some ARM boards).
        if (package && *package != "-1") packages.insert(*package);
    }
    if (packages.empty()) return {};
    return static_cast<int>(packages.size());
}

Optional<int> count_numa_nodes(const std::string& root) {
    const std::string folder = root + "/sys/devices/system/node";
    int count = 0;
    for (int node : numbered_entries(folder, "node")) {
        const auto cpus = read_text(folder + "/node" + std::to_string(node) + "/cpulist");
        if (cpus && !cpus->empty()) ++count;
    }
    if (count == 0) return {};
    return count;
}

/// The hypervisor's name by CPUID leaf 0x40000000, which exists if the "hypervisor" flag is set.
std::string hypervisor_name(const std::string& root) {
#if defined(__x86_64__)
    if (root.empty()) {
        unsigned a = 0;
        unsigned words[3] = {0, 0, 0};
        __cpuid(0x40000000, a, words[0], words[1], words[2]);
        char name[13] = {};
        std::memcpy(name, words, 12);
        const std::string text = trimmed(name);
        static const std::map<std::string, std::string> known = {{"KVMKVMKVM", "KVM"},
                                                                 {"Microsoft Hv", "Hyper-V"},
                                                                 {"VMwareVMware", "VMware"},
                                                                 {"XenVMMXenVMM", "Xen"}};
        const auto found = known.find(text);
        if (found != known.end()) return found->second;
        if (!text.empty()) return text;
    }
#endif
    return read_text(root + "/sys/hypervisor/type").value_or("unknown hypervisor");
}

Optional<std::string> virtual_machine(const std::string& cpuinfo, const std::string& root) {
    const std::string flags = " " + field(cpuinfo, "flags").value_or("") + " ";
    if (flags.find(" hypervisor ") != std::string::npos) return hypervisor_name(root);
    // ARM has no such flag; the maker indicates it, and the product where a maker has real machines too.
    const std::string dmi = root + "/sys/class/dmi/id/";
    const std::string made =
        read_text(dmi + "sys_vendor").value_or("") + " " + read_text(dmi + "product_name").value_or("");
    if (!field(cpuinfo, "CPU part") || made.find("metal") != std::string::npos) return {};
    for (const char* maker :
         {"QEMU", "Amazon EC2", "Google", "VMware", "Xen", "Microsoft Corporation Virtual Machine"}) {
        if (made.find(maker) == 0) return std::string(maker);
    }
    return {};
}

Optional<std::string> firmware(const std::string& root) {
    std::string all;
    for (const char* name : {"bios_vendor", "bios_version", "bios_date"}) {
        const std::string part = trimmed(read_text(root + "/sys/class/dmi/id/" + name).value_or(""));
        if (!part.empty()) all += (all.empty() ? "" : " ") + part;
    }
    if (all.empty()) return {};
    return all;
}

/// MemTotal or MemFree of NUMA nodes without CPUs: of coherent GPUs (GH200). On x86 it is the host's, HBM or
/// behind CXL.
std::uint64_t on_gpus(const char* what, const std::string& root) {
    if (field(read_text(root + "/proc/cpuinfo").value_or(""), "vendor_id")) return 0;
    const std::string folder = root + "/sys/devices/system/node";
    std::uint64_t bytes = 0;
    for (int node : numbered_entries(folder, "node")) {
        const std::string name = std::to_string(node);
        const auto cpus = read_text(folder + "/node" + name + "/cpulist");
        if (!cpus || !cpus->empty()) continue;
        const std::string meminfo = read_text(folder + "/node" + name + "/meminfo").value_or("");
        const std::string kib = field(meminfo, "Node " + name + " " + what).value_or("");
        bytes += std::strtoull(kib.c_str(), nullptr, 10) * 1024;
    }
    return bytes;
}

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : 0;
}

/// Page cache counts as used in a cgroup but is released on demand.
std::uint64_t reclaimable(const std::string& folder, const std::string& key) {
    std::istringstream lines(read_text(folder + "/memory.stat").value_or(""));
    std::string name;
    std::uint64_t value = 0;
    while (lines >> name >> value) {
        if (name == key) return value;
    }
    return 0;
}

/// The minimum left in the group at `path` below `mount` and in all groups above it.
std::uint64_t left_in_groups(const std::string& mount, std::string path, bool version2) {
    std::uint64_t left = no_limit;
    for (;;) {
        const std::string folder = mount + (path == "/" ? "" : path);
        const auto limit = read_number(folder + (version2 ? "/memory.max" : "/memory.limit_in_bytes"));
        const auto used = read_number(folder + (version2 ? "/memory.current" : "/memory.usage_in_bytes"));
        if (limit && used) {
            const std::uint64_t cache =
                reclaimable(folder, version2 ? "inactive_file" : "total_inactive_file");
            left = std::min(left, minus(*limit, minus(*used, cache)));
        }
        if (path.size() <= 1) return left;
        path.resize(path.find_last_of('/'));
        if (path.empty()) path = "/";
    }
}

}  // namespace

Optional<int> count_cores(const std::vector<int>& cpus, const std::string& root) {
    std::set<std::string> cores;
    for (int cpu : cpus) {
        const auto siblings = read_text(cpu_folder(root, cpu) + "/topology/thread_siblings_list");
        if (!siblings) return {};
        cores.insert(*siblings);
    }
    if (cores.empty()) return {};
    return static_cast<int>(cores.size());
}

HostDescription describe_host(const std::string& root) {
    HostDescription host;
    utsname names;
    if (uname(&names) == 0) {
        host.name = names.nodename;
        host.kernel = names.release;
        host.architecture = names.machine;
    }
    if (host.name.empty()) host.name = "unknown";
    host.os = os_name(root);
    const std::string cpuinfo = read_text(root + "/proc/cpuinfo").value_or("");
    host.cpu = cpu_name(cpuinfo, host.architecture);
    const std::vector<int> cpus = online_cpus(root);
    host.logical_cpus =
        std::max(1, static_cast<int>(cpus.empty() ? std::thread::hardware_concurrency() : cpus.size()));
    host.sockets = count_sockets(cpus, root);
    host.cores = count_cores(cpus, root);
    host.numa_nodes = count_numa_nodes(root);
    host.last_level_cache_bytes = last_level_cache(cpus, root);
    const auto total = field(read_text(root + "/proc/meminfo").value_or(""), "MemTotal");
    if (total) host.memory_bytes = std::strtoull(total->c_str(), nullptr, 10) * 1024;
    host.virtual_machine = virtual_machine(cpuinfo, root);
    host.firmware = firmware(root);
    return host;
}

std::uint64_t own_memory_bytes(const std::string& root) {
    return minus(describe_host(root).memory_bytes, on_gpus("MemTotal", root));
}

std::uint64_t available_memory_bytes(const std::string& root) {
    std::uint64_t left = no_limit;
    const std::string meminfo = read_text(root + "/proc/meminfo").value_or("");
    for (const char* key : {"MemAvailable", "MemFree"}) {  // MemAvailable came with Linux 3.14
        const auto kib = field(meminfo, key);
        if (!kib) continue;
        left = minus(std::strtoull(kib->c_str(), nullptr, 10) * 1024, on_gpus("MemFree", root));
        break;
    }
    std::istringstream groups(read_text(root + "/proc/self/cgroup").value_or(""));
    std::string line;
    while (std::getline(groups, line)) {  // ID:CONTROLLERS:PATH
        const std::size_t first = line.find(':');
        const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) left = std::min(left, left_in_groups(root + "/sys/fs/cgroup", path, true));
        if (("," + controllers + ",").find(",memory,") != std::string::npos) {
            left = std::min(left, left_in_groups(root + "/sys/fs/cgroup/memory", path, false));
        }
    }
    rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        const auto pages = read_number(root + "/proc/self/statm").value_or(0);
        left =
            std::min(left, minus(space.rlim_cur, pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))));
    }
    return left;
}

Json HostDescription::json() const {
    Json json = Json::object();
    json.set("name", name).set("os", os).set("kernel", kernel).set("architecture", architecture);
    json.set("cpu", cpu).set("sockets", sockets).set("cores", cores).set("logical_cpus", logical_cpus);
    json.set("numa_nodes", numa_nodes).set("memory_bytes", memory_bytes);
    json.set("last_level_cache_bytes", last_level_cache_bytes).set("virtual_machine", virtual_machine);
    return json.set("firmware", firmware);
}

}  // namespace tenken
