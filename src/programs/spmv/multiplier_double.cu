#include "programs/spmv/multiplier.cuh"

namespace spmv {

std::unique_ptr<Multiplier> make_double_multiplier(const Problem& problem,
                                                   const tenken::cuda::Stream& stream) {
    return std::unique_ptr<Multiplier>(new TypedMultiplier<double>(problem, stream));
}

}  // namespace spmv
