// The engine on one GPU: cuBLAS for the products, own kernels for rows and panels.
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
    std::int64_t few_rows = 0;    ///< PanelKind::automatic: cuSOLVER below so many rows
    std::int64_t triangle = 256;  ///< blocks of L11 that are inverted; 0: cublasDtrsm
};

/// Bytes on the GPU for the matrix and all that goes with it.
std::uint64_t gpu_bytes(const Layout& layout);

/// @param communicator may be null where there is one rank; it must live as long
std::unique_ptr<Engine> make_gpu_engine(const Layout& layout, const GpuChoices& choices,
                                        Communicator* communicator);

/// x of A x = b as cuSOLVER finds it on the current GPU.
std::vector<double> gpu_library_solution(const Matrix& matrix);

}  // namespace hpl
