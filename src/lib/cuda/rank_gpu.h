// The GPU of each rank of a solver.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/arguments.h"
#include "lib/base/ranks.h"
#include "lib/cuda/gpus.h"

namespace tenken {
namespace cuda {

class RankGpu {
  public:
    /// Declares --gpus.
    void options(Arguments& arguments, const std::string& help);
    /// Selects the GPU with the index of this rank on its node (in turn, if ranks may share one), and makes
    /// it current. Ranks with a GPU each are registered with NVML as one run; those that may share one count
    /// as other users of it.
    /// @throws ArgumentError for an invalid --gpus; Waived for more ranks than GPUs on a node that may not
    /// share
    void prepare(const Arguments& arguments, Ranks& ranks, bool may_share = false);
    Gpu& gpu() { return *gpu_; }
    const Gpu& gpu() const { return *gpu_; }
    /// The maximum number of ranks per GPU on this node.
    std::uint64_t sharing() const { return sharing_; }
    /// Monitors health while work() runs.
    void watch(const std::function<void()>& work);
    /// Every GPU of the node of the rank that prints, once: a document's devices are those of one node.
    void report(Document& document, Ranks& ranks);

  private:
    std::string asked_ = "all";
    std::string why_no_nvml_;
    std::uint64_t sharing_ = 1;
    std::unique_ptr<Gpu> gpu_;
};

}  // namespace cuda
}  // namespace tenken
