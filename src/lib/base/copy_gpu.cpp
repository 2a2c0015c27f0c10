#include "lib/base/copy_gpu.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lib/base/host.h"
#include "lib/base/program.h"
#include "lib/base/text_file.h"

namespace tenken {

const std::vector<std::string>& method_names() {
    static const std::vector<std::string> names = {"explicit", "managed_touch", "managed_prefetch",
                                                   "managed_advise", "sam"};
    return names;
}

Method method_of(const std::string& name) {
    for (std::size_t i = 0; i < method_names().size(); ++i) {
        if (method_names()[i] == name) return static_cast<Method>(i);
    }
    throw std::logic_error("no method of placement is called " + name);
}

const std::string& name_of(Method method) {
    return method_names()[static_cast<std::size_t>(method)];
}

const char* name_of(MemorySpace space) {
    return space == MemorySpace::host ? "host" : "device";
}

const char* name_of(Processor processor) {
    return processor == Processor::cpu ? "CPU" : "GPU";
}

bool is_managed(Method method) {
    return method == Method::managed_touch || method == Method::managed_prefetch ||
           method == Method::managed_advise;
}

Residence Residence::all_on(MemorySpace space) {
    Residence residence;
    residence.known = true;
    (space == MemorySpace::host ? residence.on_host : residence.on_device) = 1;
    return residence;
}

Residence Residence::of_pages(const std::vector<int>& nodes, const std::set<int>& of_cpus) {
    Residence residence;
    if (nodes.empty()) return residence;
    const auto on_host = static_cast<double>(std::count_if(nodes.begin(), nodes.end(), [&](int node) {
        return node >= 0 && (of_cpus.empty() || of_cpus.count(node) > 0);
    }));
    residence.known = true;
    residence.on_host = on_host / static_cast<double>(nodes.size());
    residence.on_device = 1 - residence.on_host;
    return residence;
}

bool Residence::contradicts(MemorySpace space) const {
    return known && (space == MemorySpace::host ? on_host : on_device) < 0.95;
}

std::string Residence::text() const {
    if (!known) return "unknown";
    const auto percent = [](double fraction) { return std::to_string(std::lround(100 * fraction)) + " %"; };
    return "host " + percent(on_host) + ", device " + percent(on_device);
}

void require_method(Method method, const DeviceDescription& device) {
    const std::string where = " (gpu" + std::to_string(device.index) + ", " + device.name + ")";
    if (method == Method::sam && !device.pageable_memory_access) {
        throw Waived(Waiver::no_pageable_memory_access, "cudaDevAttrPageableMemoryAccess is 0" + where);
    }
    if (is_managed(method) && !device.managed_memory) {
        throw Waived(Waiver::no_managed_memory, "cudaDevAttrManagedMemory is 0" + where);
    }
    if (is_managed(method) && method != Method::managed_touch && !device.concurrent_managed_access) {
        throw Waived(Waiver::not_supported_by_the_device,
                     "prefetch and advice need cudaDevAttrConcurrentManagedAccess, which is 0" + where);
    }
}

void require_two_arrays_fit(const Arguments& arguments, const std::string& option, std::uint64_t bytes,
                            Method method, const std::vector<DeviceDescription>& devices) {
    const auto refuse = [&](std::uint64_t maximum, std::uint64_t left, const std::string& space) {
        if (bytes <= maximum / 2) return;
        throw arguments.error(option, "at most " + format_bytes(maximum / 2) + " each: requested " +
                                          format_bytes(2 * bytes) + " for two arrays, free " +
                                          format_bytes(left) + " on " + space);
    };
    for (const DeviceDescription& device : devices) {
        const std::uint64_t left = device.memory_free_bytes;
        refuse(is_managed(method) ? left / 2 : left / 10 * 9, left, "gpu" + std::to_string(device.index));
    }
    const std::uint64_t left = available_memory_bytes();
    refuse(left / 10 * 9, left, "the host");
}

void describe_pages(Document& document) {
    document.path("page_bytes", static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
    const Optional<std::string> huge = read_text("/sys/kernel/mm/transparent_hugepage/enabled");
    if (huge) document.path("transparent_huge_pages", *huge);
    const Optional<std::string> balancing = read_text("/proc/sys/kernel/numa_balancing");
    if (balancing) document.path("numa_balancing", *balancing);
}

}  // namespace tenken
