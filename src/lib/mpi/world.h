// The ranks that run one program together: start, agreement, and a common end if one of them fails.
#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/team.h"

namespace tenken {
namespace mpi {

/// A call of MPI failed. The text contains the call, MPI's own message, file and line.
class MpiError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// @throws MpiError always
[[noreturn]] void fail(int code, const char* expression, const char* file, int line);

/// MPI_COMM_WORLD. Exactly one may exist. Its watchdog ends the process if there is no progress for too long,
/// because another rank has died unnoticed or the network hangs.
class World : public Team {
  public:
    /// @param program its name, with which every message begins
    /// @param threads the level of threads to request: MPI_THREAD_FUNNELED if only one calls MPI
    explicit World(std::string program, int threads = MPI_THREAD_FUNNELED);
    ~World() override;

    // As a Team.
    void begin() override;
    bool speaks() const override;
    State agree(const State& mine) override;
    void abandon(const std::string& what) override;
    void set_last_will(std::function<void(const std::string&)> will) override;
    void end() override;

    int rank() const { return rank_; }
    int size() const { return size_; }
    /// Rank among those of this node, and their number.
    int local_rank() const { return local_rank_; }
    int local_size() const { return local_size_; }
    /// The nodes' names by rank.
    const std::vector<std::string>& nodes() const { return nodes_; }
    /// The level of threads that the MPI provides, which may be below the requested one.
    int thread_level() const { return thread_level_; }
    /// Number of different nodes.
    int node_count() const;
    /// "Open MPI v5.0.11, ...": the first line of the library's version.
    static std::string library();

    /// Reports progress; @param doing is included in the message if it was the last report.
    void alive(const std::string& doing);
    /// Seconds without alive() after which the process gives up. To be set before begin().
    void set_patience(double seconds) { patience_seconds_ = seconds; }

    void barrier() const;
    /// The texts of all ranks, in rank 0 only.
    std::vector<std::string> gather(const std::string& mine) const;
    /// Rank `root`'s text, in every rank.
    std::string broadcast(const std::string& text, int root = 0) const;
    /// The maximum over all ranks, element by element, in every rank.
    std::vector<double> largest(std::vector<double> mine) const;
    /// Rank 0's value, in every rank.
    double broadcast(double value) const;

  private:
    void watch();
    [[noreturn]] void give_up(const std::string& what);

    std::string program_;
    int thread_level_;
    bool begun_ = false;
    int rank_ = 0;
    int size_ = 1;
    int local_rank_ = 0;
    int local_size_ = 1;
    std::vector<std::string> nodes_;

    double patience_seconds_ = 120;
    std::function<void(const std::string&)> last_will_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string doing_ = "starting";
    double heard_seconds_ = 0;
    bool watching_ = false;
    std::thread watcher_;
};

/// The rank by the variables that launchers set, before MPI is initialised; -1 if there is none.
int launched_rank();

}  // namespace mpi
}  // namespace tenken

/// TENKEN_MPI(MPI_Send(...)): a failure becomes an MpiError.
#define TENKEN_MPI(call)                                                       \
    do {                                                                       \
        const int tenken_mpi_result = (call);                                  \
        if (tenken_mpi_result != MPI_SUCCESS) {                                \
            ::tenken::mpi::fail(tenken_mpi_result, #call, __FILE__, __LINE__); \
        }                                                                      \
    } while (false)
