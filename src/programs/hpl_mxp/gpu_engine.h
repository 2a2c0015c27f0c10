// The factorisation on a GPU by cuBLAS and cuSOLVER, with built-in kernels for conversion, residuals and
// verification.
#pragma once

#include <memory>

#include "lib/lu/communicator.h"
#include "programs/hpl_mxp/engine.h"

namespace mxp {

/// Divisor of step widths: the triangles of this order are inverted.
constexpr std::int64_t gpu_tile = 512;

struct GpuChoices {
    Low low = Low::fp16;
    bool tf32_panels = true;        ///< products with inverted triangles by TF32, otherwise FP32
    int panel_multiprocessors = 8;  ///< that updates leave to the panel; 0: none
    bool try_algorithms =
        true;  ///< the fastest of the library's algorithms for the update, otherwise its first proposal
};

/// Bytes allocated by an engine, for the process with the maximum number of columns.
std::uint64_t gpu_bytes(std::int64_t n, std::int64_t nb, int processes, Low low);

/// @param communicator null for a single process
std::unique_ptr<Engine> make_gpu_engine(std::int64_t n, std::int64_t nb, lu::Ranks& ranks,
                                        const GpuChoices& choices, lu::Communicator* communicator);

}  // namespace mxp
