// Where a rank runs, and whether its GPU and its network card hang on the same part of the node.
#pragma once

#include <string>
#include <vector>

#include "lib/base/optional.h"

namespace mpi_p2p {

/// NUMA nodes of the host that hold these logical CPUs. @param root put in front of /sys, for tests
std::vector<int> numa_nodes_of_cpus(const std::vector<int>& cpus, const std::string& root = "");
/// The logical CPUs of a NUMA node; empty where the system does not report.
std::vector<int> cpus_of_numa_node(int node, const std::string& root = "");

/// What a rank is bound to.
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
    /// What lies on the far side of the node, empty when nothing does or the system does not report.
    std::string far() const;
};

/// Looks. @param gpu the rank's, with the NUMA node where the system tells it
Binding find_binding(tenken::Optional<int> gpu, tenken::Optional<int> gpu_numa_node,
                     const std::string& root = "");

/// Binds the calling thread to those of its CPUs that lie on this NUMA node, where there are such.
void bind_to_numa_node(int node);

}  // namespace mpi_p2p
