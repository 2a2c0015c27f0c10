// Other activity of the host during a measurement.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/optional.h"

namespace tenken {

/// A process according to /proc/PID/stat.
struct ProcessTimes {
    pid_t pid = 0;
    pid_t parent = 0;
    std::string name;
    std::string start;            ///< start time in ticks since boot: with the PID it identifies the process
    double cpu_seconds = 0;       ///< used by it
    double children_seconds = 0;  ///< used by its children that have ended
};

/// Parses /proc/PID/stat of one process; absent if malformed.
Optional<ProcessTimes> process_times(const std::string& stat, double ticks_per_second);

/// Monitors the host from construction on: CPU time of all processes, of this measurement (this process, its
/// children, and under a launcher the other ranks on this node), and of the other processes that used the
/// most.
class LoadWatch {
  public:
    /// @param root prefix of every path, so that tests can supply their own tree
    /// @param self the process that measures
    /// @param launched whether processes with the same parent are ranks of the same job
    LoadWatch(const std::string& root, pid_t self, bool launched);
    /// With the properties of this process.
    LoadWatch();

    /// The document's `load`, from construction until now.
    Json json() const;

  private:
    struct Reading {
        Optional<double> load_average;  ///< of one minute
        double busy_seconds = 0;        ///< of all CPUs of the host; does not include steal
        double steal_seconds = 0;       ///< time given to others by the hypervisor
        std::map<pid_t, ProcessTimes> processes;
    };
    Reading read() const;

    std::string root_;
    pid_t self_;
    bool launched_;
    double begin_seconds_;
    Reading begin_;
};

}  // namespace tenken
