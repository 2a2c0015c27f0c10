// Location of threads and of their memory.
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
    std::vector<int> thread_cpus;   ///< the CPU of each thread at the time of the query; -1 unknown
    std::string binding = "none";   ///< OMP_PROC_BIND as the runtime interpreted it
    std::string places;             ///< OMP_PLACES as given, and the resulting number of places
    std::set<int> numa_nodes_of_memory;
    int ranks = 1;
    std::vector<std::string> nodes;  ///< host names, one per rank, for programs of several ranks

    Json json() const;
};

/// Queries the operating system and the OpenMP runtime. To be called after the timed part: an unbound thread
/// is where the scheduler last placed it. numa_nodes_of_memory remains empty.
Placement find_placement();

/// The logical CPUs of this process, determined once, before any thread is bound by the functions below.
const std::vector<int>& process_cpus();
/// Restricts the calling thread to these CPUs; ignored if the system refuses or the list is empty.
void bind_this_thread(const std::vector<int>& cpus);

/// Lets the calling thread run on all CPUs of the process during its lifetime, for the threads of a library
/// that is loaded meanwhile.
class UnboundThread {
  public:
    UnboundThread();
    ~UnboundThread();
    UnboundThread(const UnboundThread&) = delete;
    UnboundThread& operator=(const UnboundThread&) = delete;

  private:
    std::vector<int> before_;
};

/// The NUMA nodes of up to 4096 pages of a range, spread evenly (move_pages; no library needed); -1 for a
/// page that the system does not find: never touched, or not in host memory. Empty if not
/// reported.
std::vector<int> nodes_of_pages(const void* data, std::size_t bytes);

/// The NUMA nodes that have CPUs; a GPU's memory can be a node without CPUs.
std::set<int> nodes_with_cpus();

/// The NUMA nodes that contain pages of a range, among those queried by nodes_of_pages().
std::set<int> numa_nodes_of(const void* data, std::size_t bytes);

}  // namespace tenken
