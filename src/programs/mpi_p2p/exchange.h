// The timed exchanges between ranks: ping-pong, windows of messages in one and both directions, and the
// collectives, counted as by the OSU Micro-Benchmarks (docs/mpi_p2p.md).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/base/program.h"
#include "lib/mpi/buffer.h"
#include "lib/mpi/rank_gpus.h"
#include "lib/mpi/world.h"

namespace mpi_p2p {

/// Amount of data in flight and number of repetitions.
struct Plan {
    long repetitions = 100;
    double warmup_seconds = 0.1;
    double repetition_seconds = 0;  ///< minimum duration of a repetition; 0: as long as the clock needs
    int window = 64;
    std::size_t window_bytes = std::size_t{1} << 30;

    /// Messages of that size in a window: the requested number, unless together they exceed window_bytes.
    int messages(std::size_t bytes) const;
    /// Bytes of a buffer for a window of messages of each size up to `maximum`.
    std::size_t buffer_bytes(std::size_t maximum) const;
};

/// Bytes from one message of a window to the next.
std::size_t stride(std::size_t bytes);

/// The result of one exchange of one size, in rank 0.
struct Outcome {
    std::vector<double> seconds;  ///< of one operation, one entry per repetition
    tenken::Check check;          ///< over all ranks
};

/// Runs exchanges between all ranks; every rank makes the same calls.
class Exchange {
  public:
    /// @param gpu may be null
    Exchange(tenken::mpi::World& world, const Plan& plan, Buffer& send, Buffer& receive, RankGpus* gpu)
        : world_(world), plan_(plan), send_(send), receive_(receive), gpu_(gpu) {}

    /// Ping-pong between rank 0 and `partner`: the time of one direction.
    Outcome latency(std::size_t bytes, int partner);
    /// A window of messages from rank 0 to `partner`, then one small reply: the time of a window.
    Outcome bandwidth(std::size_t bytes, int partner);
    /// A window in each direction at the same time: the time of both.
    Outcome bidirectional(std::size_t bytes, int partner);
    /// A window from each rank of the lower half to its partner in the upper half: the time of the slowest.
    Outcome message_rate(std::size_t bytes);
    /// The time of the slowest rank, for successive operations.
    Outcome allreduce(std::size_t bytes);
    /// `bytes` from each rank to each.
    Outcome alltoall(std::size_t bytes);
    /// From rank 0.
    Outcome broadcast(std::size_t bytes);

    /// A window from each rank to its partner and back, all pairs at once: the time of the slowest.
    /// @param partner of this rank; -1: it waits
    Outcome bisection(std::size_t bytes, int partner);
    /// Messages from all other ranks to rank 0 at once, incast_messages() of each: the time in rank 0.
    Outcome incast(std::size_t bytes);
    int incast_messages(std::size_t bytes) const;
    /// Ping-pong of 8 B between rank 0 and `partner` while the others, if `loaded`, send to the last of them
    /// without a pause.
    Outcome victim(std::size_t load_bytes, int partner, bool loaded);
    /// Ranks leave a barrier, compute the same, and add up their results in an allreduce: the time from the
    /// barrier to the arrival in the allreduce, of this rank. The others wait for the rank that arrives late.
    /// @param late_seconds delay of this rank, a planted fault
    Outcome arrival(double late_seconds);

    /// Bytes that this rank has sent so far; negative if this includes a collective, whose bytes depend on
    /// the algorithm of the MPI.
    double sent_bytes() const { return collective_ ? -1 : sent_bytes_; }
    double sent_messages() const { return sent_messages_; }

    /// For --inject-fault element: the data received by the next exchange is corrupted in one rank.
    void spoil_next() { spoil_ = true; }

  private:
    /// A message that this rank must have received: location, length and content.
    struct Expected {
        std::size_t offset;
        std::size_t bytes;
        Values values;
    };
    struct Work {
        std::string name;
        std::size_t bytes;
        bool part = true;            ///< whether this rank takes part
        bool slowest = false;        ///< whether the slowest rank counts, otherwise rank 0
        bool collective = false;     ///< the MPI determines what is sent
        double min_seconds = 50e-6;  ///< of a repetition: far above the clock's resolution
        std::vector<Expected> send;  ///< filled before
        std::vector<Expected> receive;
        std::function<void()> once;
        std::function<void()> meanwhile;  ///< of ranks that have no part in it: until the others have ended
    };
    Outcome run(const Work& work);
    double repeat(const Work& work, long times);
    void fill(const Work& work, int pattern);
    tenken::Check checked(const tenken::ErrorScan& errors, const std::string& name, std::size_t bytes);
    Outcome windows(const std::string& name, std::size_t bytes, int to, int from, bool acknowledged,
                    bool slowest);
    Values values(int rank, int slot, int pattern = 0) const;

    tenken::mpi::World& world_;
    const Plan& plan_;
    Buffer& send_;
    Buffer& receive_;
    RankGpus* gpu_;
    bool spoil_ = false;
    double sent_bytes_ = 0;
    double sent_messages_ = 0;
    bool collective_ = false;
};

}  // namespace mpi_p2p
