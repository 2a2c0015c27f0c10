// The engine on one GPU: cuBLAS for the products, built-in kernels for rows and panels.
#pragma once

#include <memory>

#include "lib/lu/communicator.h"
#include "programs/hpl/engine.h"
#include "programs/hpl/gpu_panel.h"

namespace hpl {

using lu::Communicator;

struct GpuChoices {
    PanelKind panel = PanelKind::automatic;
    int panel_blocks = 0;         ///< 0: as many as multiprocessors
    std::int64_t few_rows = 0;    ///< PanelKind::automatic: cuSOLVER below this many rows
    std::int64_t triangle = 256;  ///< blocks of L11 that are inverted; 0: cublasDtrsm
};

/// Bytes on the GPU for the matrix and all buffers.
std::uint64_t gpu_bytes(const Layout& layout);

/// @param communicator may be null with one rank; it must exist as long as the engine
std::unique_ptr<Engine> make_gpu_engine(const Layout& layout, const GpuChoices& choices,
                                        Communicator* communicator);

/// x of A x = b from cuSOLVER on the current GPU.
std::vector<double> gpu_library_solution(const Matrix& matrix);

}  // namespace hpl
