// A matrix and its vectors on the current GPU, and the variants over them.
#pragma once

#include <memory>
#include <string>

#include "lib/cuda/gpus.h"
#include "programs/spmv/backend.h"

namespace spmv {

class Multiplier {
  public:
    virtual ~Multiplier() = default;
    virtual Outcome measure(const std::string& variant, const Plan& plan, tenken::cuda::Gpu& gpu) = 0;
};

/// @param stream for all work; it must outlive the multiplier, as must the problem
std::unique_ptr<Multiplier> make_double_multiplier(const Problem& problem,
                                                   const tenken::cuda::Stream& stream);
std::unique_ptr<Multiplier> make_single_multiplier(const Problem& problem,
                                                   const tenken::cuda::Stream& stream);

}  // namespace spmv
