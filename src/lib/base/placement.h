// Where threads ran and where their memory lies.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/optional.h"

namespace tenken {

/// The `placement` object of the document.
struct Placement {
    int threads = 1;                ///< OpenMP threads of a parallel region
    std::vector<int> allowed_cpus;  ///< logical CPUs by the affinity mask (cpusets included)
    Optional<int> allowed_cores;    ///< physical cores among them
    std::vector<int> thread_cpus;   ///< the CPU of each thread at the moment of asking; -1 unknown
    std::string binding = "none";   ///< OMP_PROC_BIND as the runtime took it
    std::string places;             ///< OMP_PLACES as given, and how many places the runtime made of it
    std::set<int> numa_nodes_of_memory;
    int ranks = 1;
    std::vector<std::string> nodes;  ///< host names, one a rank, for programs of several ranks

    Json json() const;
};

/// Asks the operating system and the OpenMP runtime. Call it after the timed part: a thread that is not
/// bound is where the scheduler last put it. numa_nodes_of_memory is left empty.
Placement find_placement();

/// The logical CPUs of this process, found once, before any thread is bound by the functions below.
const std::vector<int>& process_cpus();
/// Lets the calling thread run on these CPUs only; ignored where the system refuses or the list is empty.
void bind_this_thread(const std::vector<int>& cpus);

/// The NUMA nodes of up to 4096 pages of a range, spread evenly (move_pages; no library needed); -1 for a
/// page that the system does not find: never touched, or not in host memory. Empty where the system does not
/// tell.
std::vector<int> nodes_of_pages(const void* data, std::size_t bytes);

/// The NUMA nodes that have CPUs; a GPU's memory can be a node without.
std::set<int> nodes_with_cpus();

/// The NUMA nodes that hold pages of a range, of those that nodes_of_pages() asks for.
std::set<int> numa_nodes_of(const void* data, std::size_t bytes);

}  // namespace tenken
