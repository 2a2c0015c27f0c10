// The processes that solve one problem together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/team.h"
#include "hpcg/grid.h"

namespace hpcg {

/// One process alone; MPI's ranks derive from it.
class Ranks : public tenken::Team {
  public:
    virtual int rank() const { return 0; }
    virtual int size() const { return 1; }
    /// The place of this process among those of its node.
    virtual int local_rank() const { return 0; }
    virtual int local_size() const { return 1; }
    virtual std::vector<std::string> nodes() const { return {}; }
    /// What the MPI says of itself; empty without.
    virtual std::string library() const { return ""; }
    virtual std::string broadcast(const std::string& bytes) { return bytes; }
    virtual std::vector<std::string> gather(const std::string& mine) { return {mine}; }
    virtual std::vector<double> largest(std::vector<double> mine) { return mine; }
    virtual void barrier() {}
    virtual void alive(const std::string& doing) { (void)doing; }
    virtual void set_patience(double seconds) { (void)seconds; }

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
std::unique_ptr<Ranks> make_ranks();

}  // namespace hpcg
