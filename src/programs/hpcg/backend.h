// Where a rank's part of the problem is solved: on the host, or on a GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/host_dot.h"
#include "lib/base/rank_backend.h"
#include "programs/hpcg/engine.h"
#include "programs/hpcg/ranks.h"

namespace hpcg {

class Backend : public tenken::RankBackend {
  public:
    /// Selects its device. @throws as tenken::cuda::device_count() and describe(); ArgumentError
    virtual void prepare(const tenken::Arguments& arguments, Ranks& ranks) = 0;
    /// Where free_bytes() are: "the host", "gpu0".
    virtual std::string memory() const = 0;
    /// All of it; HPCG requires a quarter of it to be used in an official run.
    virtual std::uint64_t all_bytes() const = 0;
    virtual std::uint64_t cache_bytes() const = 0;
    /// Measured on two large arrays, by this rank while the others do the same.
    virtual tenken::TimedDots time_dots(long repetitions, double warmup_seconds) = 0;

    /// Creates the problem.
    virtual void generate(const std::vector<Part>& parts) = 0;
    /// The solver in the given order.
    virtual std::unique_ptr<Engine> given_order() = 0;
    virtual std::unique_ptr<Engine> optimised(bool spoil_colour) = 0;
    /// Reorders rows and columns of the problem; earlier solvers must have been destroyed.
    virtual void shuffle(std::uint64_t seed) = 0;
    virtual void forget() = 0;
};

std::unique_ptr<Backend> make_host_backend();
/// Null in a build without CUDA.
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace hpcg
