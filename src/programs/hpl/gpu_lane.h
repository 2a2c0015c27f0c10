// Resources of a lane of the factorisation on its GPU.
#pragma once

#include "lib/lu/gpu_lanes.h"

namespace hpl {

struct LaneParts : lu::GpuLane {
    LaneParts(Priority priority, std::int64_t gathered, std::int64_t result)
        : GpuLane(priority),
          gathered(static_cast<std::size_t>(gathered)),
          result(static_cast<std::size_t>(result)) {}
    tenken::cuda::DeviceArray<double> gathered;  ///< rows that move to the top (and that leave it)
    tenken::cuda::DeviceArray<double> result;    ///< rows of U, if they are not in A itself
};

}  // namespace hpl
