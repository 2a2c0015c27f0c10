// The processes that solve one problem together.
#pragma once

#include <memory>

#include "lib/base/ranks.h"
#include "programs/hpcg/grid.h"

namespace hpcg {

/// One process alone; MPI's ranks derive from it.
class Ranks : public tenken::Ranks {
  public:
    /// Sums numbers over all ranks, in place; MPI must be able to reach them.
    virtual void sum(double* numbers, int count) {
        (void)numbers;
        (void)count;
    }
    /// Sends each neighbour its part of `send`, receives its part of `receive`; MPI must be able to reach
    /// both.
    virtual void exchange(const Halo& halo, const double* send, double* receive) {
        (void)halo;
        (void)send;
        (void)receive;
    }
};

/// Those of MPI when a launcher of MPI has started this process, else this process alone.
std::unique_ptr<Ranks> launched_ranks();

}  // namespace hpcg
