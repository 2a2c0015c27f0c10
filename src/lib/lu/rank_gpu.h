// The one GPU that each rank of a solver takes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/arguments.h"
#include "lib/cuda/gpus.h"
#include "lib/lu/ranks.h"

namespace lu {

class RankGpu {
  public:
    /// Declares --gpus.
    void options(tenken::Arguments& arguments);
    /// Takes the GPU of this rank's place on its node, makes it current, and makes the ranks known to NVML as
    /// one run. @throws ArgumentError for a wrong --gpus; Waived for more ranks than GPUs on a node
    void prepare(const tenken::Arguments& arguments, Ranks& ranks);
    tenken::cuda::Gpu& gpu() { return *gpu_; }
    const tenken::cuda::Gpu& gpu() const { return *gpu_; }
    /// Watches health while work() runs.
    void watch(const std::function<void()>& work);
    /// Every GPU of the node of the rank that speaks: a document's devices are those of one node.
    void report(tenken::Document& document, Ranks& ranks);

  private:
    std::string asked_ = "all";
    std::string why_no_nvml_;
    std::unique_ptr<tenken::cuda::Gpu> gpu_;
};

}  // namespace lu
