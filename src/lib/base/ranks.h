// The processes of one measurement: this one only, or the ranks of MPI (mpi/ranks.h).
#pragma once

#include <string>
#include <vector>

#include "lib/base/team.h"

namespace tenken {

/// A single process.
class Ranks : public Team {
  public:
    virtual int rank() const { return 0; }
    virtual int size() const { return 1; }
    /// The index of this process among those of its node, and their number.
    virtual int local_rank() const { return 0; }
    virtual int local_size() const { return 1; }
    /// The nodes' names by rank; empty without MPI.
    virtual std::vector<std::string> nodes() const { return {}; }
    /// Name and version reported by the MPI; empty without MPI.
    virtual std::string library() const { return ""; }
    /// Rank 0's bytes, in every rank.
    virtual std::string broadcast(const std::string& bytes) { return bytes; }
    /// The texts of all ranks, in rank 0 only.
    virtual std::vector<std::string> gather(const std::string& mine) { return {mine}; }
    /// The maximum over all ranks, element by element, in every rank.
    virtual std::vector<double> largest(std::vector<double> mine) { return mine; }
    virtual void barrier() {}
    /// Reports progress; a run is ended if its other ranks have died and this is no longer called.
    virtual void alive(const std::string& doing) { (void)doing; }
    /// Seconds without alive() after which a process gives up.
    virtual void set_patience(double seconds) { (void)seconds; }
};

}  // namespace tenken
