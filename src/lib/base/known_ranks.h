// Lets the processes of one run know each other's ids.
#pragma once

#include <unistd.h>

#include <sstream>
#include <string>
#include <vector>

#include "lib/base/nvml.h"

namespace tenken {

/// The processes of other ranks then do not count as other users of a GPU. Called by all ranks together.
/// @tparam Ranks has gather() and broadcast() of texts
template <typename Ranks>
void know_each_other(Ranks& ranks) {
    std::string text;
    for (const std::string& pid : ranks.gather(std::to_string(getpid()))) text += pid + "\n";
    std::istringstream all(ranks.broadcast(text));
    std::vector<int> pids;
    for (int pid = 0; all >> pid;) pids.push_back(pid);
    set_processes_of_run(pids);
}

}  // namespace tenken
