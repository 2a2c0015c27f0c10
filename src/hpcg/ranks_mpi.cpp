#include "common/mpi/world.h"
#include "hpcg/ranks.h"

namespace hpcg {

namespace {

class MpiRanks : public Ranks {
  public:
    void begin() override { world_.begin(); }
    bool speaks() const override { return world_.speaks(); }
    State agree(const State& mine) override { return world_.agree(mine); }
    void abandon(const std::string& what) override { world_.abandon(what); }
    void set_last_will(std::function<void(const std::string&)> will) override {
        world_.set_last_will(std::move(will));
    }
    void end() override { world_.end(); }

    int rank() const override { return world_.rank(); }
    int size() const override { return world_.size(); }
    int local_rank() const override { return world_.local_rank(); }
    int local_size() const override { return world_.local_size(); }
    std::vector<std::string> nodes() const override { return world_.nodes(); }
    std::string library() const override { return tenken::mpi::World::library(); }
    std::string broadcast(const std::string& bytes) override { return world_.broadcast(bytes); }
    std::vector<std::string> gather(const std::string& mine) override { return world_.gather(mine); }
    std::vector<double> largest(std::vector<double> mine) override { return world_.largest(std::move(mine)); }
    void barrier() override { world_.barrier(); }
    void alive(const std::string& doing) override { world_.alive(doing); }
    void set_patience(double seconds) override { world_.set_patience(seconds); }

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
    tenken::mpi::World world_{"hpcg"};
    std::vector<MPI_Request> requests_;
};

}  // namespace

std::unique_ptr<Ranks> make_ranks() {
    return std::unique_ptr<Ranks>(tenken::mpi::launched_rank() >= 0 ? new MpiRanks : new Ranks);
}

}  // namespace hpcg
