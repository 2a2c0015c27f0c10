// The rank of this process in its job.
#pragma once

#include <string>

namespace tenken {

/// The rank by the variables that launchers set; empty if there is none.
std::string launcher_rank();

}  // namespace tenken
