// Description of the host, and its available memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/optional.h"

namespace tenken {

/// The `host` object of the document. Properties that the system does not report are absent.
struct HostDescription {
    std::string name;
    std::string os;            ///< /etc/os-release
    std::string kernel;        ///< uname -r
    std::string architecture;  ///< uname -m
    std::string cpu;           ///< model name; on ARM implementer and part
    Optional<int> sockets;
    Optional<int> cores;  ///< physical
    int logical_cpus = 1;
    Optional<int> numa_nodes;                        ///< those with CPUs (GPU memory may be a separate node)
    std::uint64_t memory_bytes = 1;                  ///< MemTotal
    Optional<std::uint64_t> last_level_cache_bytes;  ///< sum of all last-level caches of the node
    Optional<std::string> virtual_machine;
    Optional<std::string> firmware;

    Json json() const;
};

/// Reads /proc, /sys and uname. @param root prefix of every path, for tests
HostDescription describe_host(const std::string& root = "");

/// Physical cores among logical CPUs, by their SMT siblings; absent if /sys does not report them.
Optional<int> count_cores(const std::vector<int>& cpus, const std::string& root = "");

/// MemTotal in bytes without the memory of coherent GPUs.
std::uint64_t own_memory_bytes(const std::string& root = "");

/// The memory in bytes that this process may still allocate: the minimum of MemAvailable without that of
/// coherent GPUs, the remaining cgroup limits (v1 and v2), and RLIMIT_AS.
std::uint64_t available_memory_bytes(const std::string& root = "");

}  // namespace tenken
