#include "programs/spmv/multiplier.cuh"

namespace spmv {

std::unique_ptr<Multiplier> make_single_multiplier(const Problem& problem,
                                                   const tenken::cuda::Stream& stream) {
    return std::unique_ptr<Multiplier>(new TypedMultiplier<float>(problem, stream));
}

}  // namespace spmv
