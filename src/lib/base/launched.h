// Whether a program was started as a single process or as MPI ranks; builds with and without MPI.
#pragma once

#include <memory>
#include <string>

#include "lib/base/ranks.h"
#ifdef TENKEN_HAVE_MPI
#include "lib/mpi/ranks.h"
#endif

namespace tenken {

/// The ranks of MPI if an MPI launcher has started this process, otherwise this process only.
/// @param program its name, with which messages begin
inline std::unique_ptr<Ranks> launched_ranks(const std::string& program) {
#ifdef TENKEN_HAVE_MPI
    if (mpi::launched_rank() >= 0) return std::unique_ptr<Ranks>(new mpi::RanksOf<Ranks>(program));
#endif
    (void)program;
    return std::unique_ptr<Ranks>(new Ranks);
}

}  // namespace tenken
