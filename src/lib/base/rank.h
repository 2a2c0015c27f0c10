// Which rank of a job this process is.
#pragma once

#include <string>

namespace tenken {

/// The rank by the variables that launchers set; empty where there is none.
std::string launcher_rank();

}  // namespace tenken
