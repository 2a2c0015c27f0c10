#include "programs/mpi_p2p/binding.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "lib/base/placement.h"
#include "lib/base/text_file.h"

namespace mpi_p2p {

namespace {

const char* const nodes_folder = "/sys/devices/system/node";

std::string join(const std::vector<int>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::size_t first = i;
        while (i + 1 < numbers.size() && numbers[i + 1] == numbers[i] + 1) ++i;
        text += (text.empty() ? "" : ",") + std::to_string(numbers[first]);
        if (i > first) text += "-" + std::to_string(numbers[i]);
    }
    return text;
}

/// The CPUs currently available to the calling thread.
std::vector<int> allowed_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cpus;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return tenken::process_cpus();
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
    return cpus;
}

bool contains(const std::vector<int>& numbers, int number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

}  // namespace

std::vector<int> cpus_of_numa_node(int node, const std::string& root) {
    const auto text = tenken::read_text(root + nodes_folder + "/node" + std::to_string(node) + "/cpulist");
    return text ? tenken::parse_cpu_list(*text) : std::vector<int>{};
}

std::vector<int> numa_nodes_of_cpus(const std::vector<int>& cpus, const std::string& root) {
    std::vector<int> nodes;
    for (int node : tenken::numbered_entries(root + nodes_folder, "node")) {
        const std::vector<int> of_node = cpus_of_numa_node(node, root);
        if (std::any_of(cpus.begin(), cpus.end(), [&](int cpu) { return contains(of_node, cpu); })) {
            nodes.push_back(node);
        }
    }
    return nodes;
}

std::string Binding::text() const {
    std::string line = host + ", CPUs " + join(cpus);
    if (!cpu_numa_nodes.empty()) line += " of NUMA node " + join(cpu_numa_nodes);
    if (gpu) line += ", GPU " + std::to_string(*gpu);
    if (gpu_numa_node) line += " on NUMA node " + std::to_string(*gpu_numa_node);
    if (!nics.empty()) line += ", NIC " + nics;
    if (!nic_numa_nodes.empty()) line += " on NUMA node " + join(nic_numa_nodes);
    return line;
}

std::string Binding::far() const {
    if (gpu_numa_node && !cpu_numa_nodes.empty() && !contains(cpu_numa_nodes, *gpu_numa_node)) {
        return "GPU " + std::to_string(gpu.value_or(0)) + " is on NUMA node " +
               std::to_string(*gpu_numa_node) + ", the rank's CPUs are on " + join(cpu_numa_nodes);
    }
    if (!nic_numa_nodes.empty()) {
        const int home = gpu_numa_node            ? *gpu_numa_node
                         : cpu_numa_nodes.empty() ? -1
                                                  : cpu_numa_nodes.front();
        if (home >= 0 && !contains(nic_numa_nodes, home)) {
            return "NIC " + nics + " is on NUMA node " + join(nic_numa_nodes) + ", the rank's " +
                   (gpu_numa_node ? "GPU" : "CPUs") + " on " + std::to_string(home);
        }
    }
    return "";
}

Binding find_binding(tenken::Optional<int> gpu, tenken::Optional<int> gpu_numa_node,
                     const std::string& root) {
    Binding binding;
    char name[256] = "unknown";
    gethostname(name, sizeof name - 1);
    binding.host = name;
    binding.cpus = allowed_cpus();
    binding.cpu_numa_nodes = numa_nodes_of_cpus(binding.cpus, root);
    binding.gpu = gpu;
    binding.gpu_numa_node = gpu_numa_node;
    const char* const devices = std::getenv("UCX_NET_DEVICES");
    if (devices == nullptr || std::string(devices) == "all") return binding;
    std::istringstream words(devices);
    for (std::string word; std::getline(words, word, ',');) {
        const std::string nic = word.substr(0, word.find(':'));
        const auto node = tenken::read_text(root + "/sys/class/infiniband/" + nic + "/device/numa_node");
        binding.nics += (binding.nics.empty() ? "" : ",") + nic;
        if (node && !node->empty() && node->front() != '-') {
            binding.nic_numa_nodes.push_back(std::atoi(node->c_str()));
        }
    }
    return binding;
}

void bind_to_numa_node(int node) {
    const std::vector<int> allowed = allowed_cpus();
    std::vector<int> near;
    for (int cpu : cpus_of_numa_node(node)) {
        if (contains(allowed, cpu)) near.push_back(cpu);
    }
    tenken::bind_this_thread(near);  // none: unchanged, reported by far()
}

}  // namespace mpi_p2p
