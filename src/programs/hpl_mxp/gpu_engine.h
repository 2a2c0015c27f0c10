// The factorisation on a GPU by cuBLAS and cuSOLVER, with own kernels for conversion, residuals and
// verification.
#pragma once

#include <memory>

#include "lib/lu/communicator.h"
#include "programs/hpl_mxp/engine.h"

namespace mxp {

/// Steps are a multiple of it: the triangles of this order are inverted.
constexpr std::int64_t gpu_tile = 512;

struct GpuChoices {
    Low low = Low::fp16;
    bool tf32_panels = true;        ///< products with inverted triangles by TF32, else FP32
    int panel_multiprocessors = 8;  ///< that updates leave to the panel; 0: none
    bool try_algorithms = true;     ///< the fastest of the library's for the update, else its first proposal
};

/// What an engine allocates, in bytes, for the process with the most columns.
std::uint64_t gpu_bytes(std::int64_t n, std::int64_t nb, int processes, Low low);

/// @param communicator null where one process is alone
std::unique_ptr<Engine> make_gpu_engine(std::int64_t n, std::int64_t nb, lu::Ranks& ranks,
                                        const GpuChoices& choices, lu::Communicator* communicator);

}  // namespace mxp
