// Location of a rank, and whether its GPU and its network adapter are on the same NUMA node.
#pragma once

#include <string>
#include <vector>

#include "lib/base/optional.h"

namespace mpi_p2p {

/// NUMA nodes of the host that contain these logical CPUs. @param root prefix of /sys, for tests
std::vector<int> numa_nodes_of_cpus(const std::vector<int>& cpus, const std::string& root = "");
/// The logical CPUs of a NUMA node; empty if not reported by the system.
std::vector<int> cpus_of_numa_node(int node, const std::string& root = "");

/// The binding of a rank.
struct Binding {
    std::string host;
    std::vector<int> cpus;
    std::vector<int> cpu_numa_nodes;
    tenken::Optional<int> gpu;
    tenken::Optional<int> gpu_numa_node;
    std::string nics;  ///< of UCX_NET_DEVICES, without ports; empty: the MPI chooses
    std::vector<int> nic_numa_nodes;

    /// One line for the document: "nid001, CPUs 0-15 of NUMA node 0, GPU 0 on NUMA node 0".
    std::string text() const;
    /// Remote devices of the rank; empty if there are none or the system does not report them.
    std::string far() const;
};

/// Detects the binding. @param gpu the rank's, with the NUMA node if the system reports it
Binding find_binding(tenken::Optional<int> gpu, tenken::Optional<int> gpu_numa_node,
                     const std::string& root = "");

/// Binds the calling thread to those of its CPUs that belong to this NUMA node, if any.
void bind_to_numa_node(int node);

}  // namespace mpi_p2p
