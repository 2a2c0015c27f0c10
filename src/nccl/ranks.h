// Who takes part: the GPUs of this process alone, or one GPU of each MPI rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/team.h"

namespace nccl {

class Ranks : public tenken::Team {
  public:
    virtual int process() const { return 0; }
    virtual int processes() const { return 1; }
    /// The place of this process among those of its node.
    virtual int local_process() const { return 0; }
    virtual int local_processes() const { return 1; }
    virtual std::vector<std::string> nodes() const { return {}; }
    virtual std::string library() const { return ""; }
    /// Rank 0's bytes, in every process.
    virtual std::string broadcast(const std::string& bytes) { return bytes; }
    virtual std::vector<std::string> gather(const std::string& mine) { return {mine}; }
    /// The largest of all processes', element by element.
    virtual std::vector<double> largest(std::vector<double> mine) { return mine; }
    virtual void barrier() {}
    virtual void alive(const std::string& doing) { (void)doing; }
    /// Seconds without alive() after which a process gives up.
    virtual void set_patience(double seconds) { (void)seconds; }
};

/// Those of MPI when a launcher of MPI has started this process, else this process alone.
/// @param program its name, which begins messages
std::unique_ptr<Ranks> make_ranks(const std::string& program);

}  // namespace nccl
