#include <algorithm>

#include "lib/mpi/ranks.h"
#include "programs/overlap/peers.h"

namespace overlap {

namespace {

/// Counts of MPI are int.
constexpr std::uint64_t max_message = std::uint64_t{1} << 30;

class MpiPeers : public tenken::mpi::RanksOf<Peers> {
  public:
    MpiPeers() : RanksOf("overlap", MPI_THREAD_MULTIPLE) {}

    void begin() override {
        RanksOf::begin();
        TENKEN_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &computing_));
        TENKEN_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &writing_));
    }

    std::string thread_level() const override {
        switch (provided_threads()) {
            case MPI_THREAD_SINGLE:
                return "MPI_THREAD_SINGLE";
            case MPI_THREAD_FUNNELED:
                return "MPI_THREAD_FUNNELED";
            case MPI_THREAD_SERIALIZED:
                return "MPI_THREAD_SERIALIZED";
            default:
                return "MPI_THREAD_MULTIPLE";
        }
    }
    bool two_threads_may_call() const override { return provided_threads() >= MPI_THREAD_MULTIPLE; }

    void exchange(const Planes& planes, int bytes) override {
        const int next = (rank() + 1) % size();
        const int previous = (rank() + size() - 1) % size();
        TENKEN_MPI(MPI_Sendrecv(planes.last, bytes, MPI_BYTE, next, 0, planes.before, bytes, MPI_BYTE,
                                previous, 0, computing_, MPI_STATUS_IGNORE));
        TENKEN_MPI(MPI_Sendrecv(planes.first, bytes, MPI_BYTE, previous, 1, planes.after, bytes, MPI_BYTE,
                                next, 1, computing_, MPI_STATUS_IGNORE));
    }

    void send_part(const char* part, std::uint64_t bytes) override {
        for (std::uint64_t at = 0; at < bytes; at += max_message) {
            const int count = static_cast<int>(std::min(max_message, bytes - at));
            TENKEN_MPI(MPI_Send(part + at, count, MPI_BYTE, 0, 0, writing_));
        }
    }

    void receive_part(char* part, std::uint64_t bytes, int from) override {
        for (std::uint64_t at = 0; at < bytes; at += max_message) {
            const int count = static_cast<int>(std::min(max_message, bytes - at));
            TENKEN_MPI(MPI_Recv(part + at, count, MPI_BYTE, from, 0, writing_, MPI_STATUS_IGNORE));
        }
    }

  private:
    MPI_Comm computing_ = MPI_COMM_NULL;
    MPI_Comm writing_ = MPI_COMM_NULL;
};

}  // namespace

std::unique_ptr<Peers> launched_peers() {
    return std::unique_ptr<Peers>(tenken::mpi::launched_rank() >= 0 ? new MpiPeers : new Peers);
}

}  // namespace overlap
