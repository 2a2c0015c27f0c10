// The measurements of transfer: kinds of transfers between host and device memory, one series each.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/program.h"
#include "lib/base/verification.h"

namespace transfer {

/// Sizes and repetitions.
struct Plan {
    std::size_t elements = 0;  ///< of 8 bytes, of each array of a series
    std::size_t maximum = 0;   ///< of the largest array of the sweep; 0: no sweep
    long trials = 1;
    long repetitions = 100;
    double warmup_seconds = 1;
    tenken::Fault fault = tenken::Fault::none;

    /// Elements and repetitions of slow transfers: kernels over the link, pageable and managed memory.
    std::size_t slow_elements() const { return elements < 4 ? elements : elements / 4; }
    long few() const { return repetitions < 5 ? repetitions : repetitions / 5; }
};

/// One metric with everything except its name.
struct Series {
    tenken::Metric metric;
    std::vector<tenken::Check> checks;
};

/// The part that needs a GPU.
class GpuTransfers {
  public:
    virtual ~GpuTransfers() = default;
    virtual void options(tenken::Arguments& arguments) = 0;
    virtual void prepare(const tenken::Arguments& arguments) = 0;
    /// @throws ArgumentError if the arrays of the plan do not fit on a side
    virtual void require_fit(const tenken::Arguments& arguments, const Plan& plan) = 0;
    /// The transfers called `name` on every GPU; empty if the GPU does not support them, with the reason in
    /// the document's path.
    virtual std::vector<Series> measure(const std::string& name, const Plan& plan,
                                        tenken::Document& document) = 0;
    virtual void describe(tenken::Document& document) = 0;
};

/// Null in a build without CUDA.
std::unique_ptr<GpuTransfers> make_gpu_transfers();

}  // namespace transfer
