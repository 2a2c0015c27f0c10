// The GPU of each rank of a solver.
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
    /// Selects the GPU with the index of this rank on its node, makes it current, and registers the ranks
    /// with NVML as one run. @throws ArgumentError for an invalid --gpus; Waived for more ranks than GPUs on
    /// a node
    void prepare(const tenken::Arguments& arguments, Ranks& ranks);
    tenken::cuda::Gpu& gpu() { return *gpu_; }
    const tenken::cuda::Gpu& gpu() const { return *gpu_; }
    /// Monitors health while work() runs.
    void watch(const std::function<void()>& work);
    /// Every GPU of the node of the rank that prints: a document's devices are those of one node.
    void report(tenken::Document& document, Ranks& ranks);

  private:
    std::string asked_ = "all";
    std::string why_no_nvml_;
    std::unique_ptr<tenken::cuda::Gpu> gpu_;
};

}  // namespace lu
