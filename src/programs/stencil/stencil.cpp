// A stencil of 27 or 7 points over many GPUs or ranks: the grid is cut into slabs, halos of bt planes are
// exchanged every bt steps, and every method of exchange is compared with one GPU alone.
#include "programs/stencil/stencil.h"

#include <cstdio>
#include <cstdlib>

#if defined(TENKEN_HAVE_MPI) && defined(TENKEN_HAVE_CUDA)
#include "lib/mpi/probe.h"
#endif

#ifndef TENKEN_HAVE_CUDA
namespace stencil {

std::unique_ptr<GpuBackend> make_gpu_backend() {
    return nullptr;
}

}  // namespace stencil
#endif

int main(int argc, char** argv) {
#if defined(TENKEN_HAVE_MPI) && defined(TENKEN_HAVE_CUDA)
    int code = 0;
    if (mpi_p2p::is_probe(argc, argv, code)) return code;
#endif
    const std::unique_ptr<tenken::Ranks> ranks = tenken::launched_ranks("stencil");
    stencil::Stencil program(*ranks);
    const int result = tenken::run_program(program, argc, argv, *ranks);
    if (program.leave_at_once()) {
        std::fflush(nullptr);
        std::_Exit(result);
    }
    return result;
}
