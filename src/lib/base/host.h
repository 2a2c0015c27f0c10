// What the host says of itself, and how much memory it can still give.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/optional.h"

namespace tenken {

/// The `host` object of the document. What the system does not report is absent.
struct HostDescription {
    std::string name;
    std::string os;            ///< /etc/os-release
    std::string kernel;        ///< uname -r
    std::string architecture;  ///< uname -m
    std::string cpu;           ///< model name; on ARM implementer and part
    Optional<int> sockets;
    Optional<int> cores;  ///< physical
    int logical_cpus = 1;
    Optional<int> numa_nodes;        ///< those with CPUs (GPU memory may be a node of its own)
    std::uint64_t memory_bytes = 1;  ///< MemTotal
    Optional<std::uint64_t> last_level_cache_bytes;  ///< all last-level caches of the node together
    Optional<std::string> virtual_machine;
    Optional<std::string> firmware;

    Json json() const;
};

/// Reads /proc, /sys and uname. @param root put in front of every path, so that tests can give a tree of
/// their own
HostDescription describe_host(const std::string& root = "");

/// Physical cores among logical CPUs, by their SMT siblings; absent where /sys does not report.
Optional<int> count_cores(const std::vector<int>& cpus, const std::string& root = "");

/// The memory in bytes that this process may still take: the least of MemAvailable, what the cgroups
/// (v1 and v2) of the process leave, and RLIMIT_AS.
std::uint64_t available_memory_bytes(const std::string& root = "");

}  // namespace tenken
