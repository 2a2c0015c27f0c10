// The measurements of memcopy: kinds of copies, each with one series of repetitions per trial.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/copy_values.h"
#include "lib/base/document.h"
#include "lib/base/program.h"
#include "lib/base/verification.h"

namespace memcopy {

/// Parameters of a trial, which allocates its own arrays.
struct Plan {
    std::size_t elements = 0;  ///< of each of the two arrays
    long trials = 1;
    long repetitions = 200;
    double warmup_seconds = 1;
    tenken::Fault fault = tenken::Fault::none;

    std::uint64_t bytes() const { return elements * sizeof(double); }
};

/// All trials of one kind of copy on one host or GPU.
struct Series {
    std::string name;  ///< as in metrics.yaml
    tenken::Subject subject = tenken::Subject::host();
    std::string clock = "host";
    std::vector<std::vector<double>> seconds;  ///< by trial
    std::vector<double> host_seconds;          ///< of all trials by the host clock, if `clock` is another
    std::vector<tenken::Check> checks;         ///< one per trial

    /// Coordinates of the verification of the next trial.
    tenken::At at() const {
        return {{"metric", tenken::Json(name)}, {"trial", tenken::Json(checks.size() + 1)}};
    }
};

using tenken::Buffer;

/// The part of memcopy that needs a GPU.
class GpuCopies {
  public:
    virtual ~GpuCopies() = default;
    virtual void options(tenken::Arguments& arguments) = 0;
    /// Finds the GPUs. @throws as tenken::cuda::Gpus::prepare()
    virtual void prepare(const tenken::Arguments& arguments) = 0;
    /// @throws ArgumentError if two arrays of the size do not fit into a GPU, or are below four times its L2
    virtual void require_fit(const tenken::Arguments& arguments, const Plan& plan) = 0;
    /// Measures `kernel` or `memcpy` on every GPU.
    virtual std::vector<Series> measure(const std::string& name, const Plan& plan) = 0;
    /// Page-locked host memory.
    virtual Buffer pinned(std::size_t elements) = 0;
    virtual void describe(tenken::Document& document) = 0;
};

/// Null in a build without CUDA.
std::unique_ptr<GpuCopies> make_gpu_copies();

}  // namespace memcopy
