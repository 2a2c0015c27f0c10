// The processes that solve one problem together.
#pragma once

#include <memory>

#include "lib/base/ranks.h"
#include "programs/hpcg/grid.h"

namespace hpcg {

/// A single process; MPI's ranks derive from it.
class Ranks : public tenken::Ranks {
  public:
    /// Sums numbers over all ranks, in place, in memory accessible to MPI.
    virtual void sum(double* numbers, int count) {
        (void)numbers;
        (void)count;
    }
    /// Sends each neighbour its part of `send`, receives its part of `receive`; MPI must be able to access
    /// both.
    virtual void exchange(const Halo& halo, const double* send, double* receive) {
        (void)halo;
        (void)send;
        (void)receive;
    }
};

/// The ranks of MPI if an MPI launcher has started this process, otherwise this process only.
std::unique_ptr<Ranks> launched_ranks();

}  // namespace hpcg
