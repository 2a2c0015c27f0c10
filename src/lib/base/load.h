// What else the host did while a program measured.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/optional.h"

namespace tenken {

/// A process as /proc/PID/stat tells it.
struct ProcessTimes {
    pid_t pid = 0;
    pid_t parent = 0;
    std::string name;
    std::string start;            ///< when it began, in ticks since boot: with the PID it is one process
    double cpu_seconds = 0;       ///< used by it
    double children_seconds = 0;  ///< used by those of its children that ended
};

/// What one process of /proc/PID/stat says; absent when malformed.
Optional<ProcessTimes> process_times(const std::string& stat, double ticks_per_second);

/// Watches the host from its making on: CPU time of everybody, of this measurement (this process, what it
/// started, and under a launcher its other ranks on this node), and of the others who used most.
class LoadWatch {
  public:
    /// @param root put in front of every path, so that tests can give a tree of their own
    /// @param self the process that measures
    /// @param launched whether those of the same parent are ranks of the same job
    LoadWatch(const std::string& root, pid_t self, bool launched);
    /// As this process finds itself.
    LoadWatch();

    /// The document's `load`, from the making on until now.
    Json json() const;

  private:
    struct Reading {
        Optional<double> load_average;  ///< of one minute
        double busy_seconds = 0;        ///< of all CPUs of the host; steal is none of it
        double steal_seconds = 0;       ///< what the hypervisor gave to others
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
