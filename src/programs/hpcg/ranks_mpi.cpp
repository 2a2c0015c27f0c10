#include "lib/mpi/ranks.h"
#include "programs/hpcg/ranks.h"

namespace hpcg {

namespace {

class MpiRanks : public tenken::mpi::RanksOf<Ranks> {
  public:
    MpiRanks() : RanksOf("hpcg") {}

    void sum(double* numbers, int count) override {
        TENKEN_MPI(MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    }

    void exchange(const Halo& halo, const double* send, double* receive) override {
        requests_.resize(2 * halo.neighbours.size());
        std::size_t next = 0;
        for (const Neighbour& neighbour : halo.neighbours) {
            TENKEN_MPI(MPI_Irecv(receive + neighbour.begin, neighbour.count, MPI_DOUBLE, neighbour.rank, 0,
                                 MPI_COMM_WORLD, &requests_[next++]));
        }
        for (const Neighbour& neighbour : halo.neighbours) {
            TENKEN_MPI(MPI_Isend(send + neighbour.begin, neighbour.count, MPI_DOUBLE, neighbour.rank, 0,
                                 MPI_COMM_WORLD, &requests_[next++]));
        }
        TENKEN_MPI(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE));
    }

  private:
    std::vector<MPI_Request> requests_;
};

}  // namespace

std::unique_ptr<Ranks> launched_ranks() {
    return std::unique_ptr<Ranks>(tenken::mpi::launched_rank() >= 0 ? new MpiRanks : new Ranks);
}

}  // namespace hpcg
