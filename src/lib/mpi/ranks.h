// Ranks of MPI.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/ranks.h"
#include "lib/mpi/world.h"

namespace tenken {
namespace mpi {

/// @tparam Base tenken::Ranks, or a class derived from it
template <typename Base>
class RanksOf : public Base {
  public:
    using State = typename Base::State;
    using Base::broadcast;

    /// @param program its name, with which messages begin
    /// @param threads as of World
    explicit RanksOf(const std::string& program, int threads = MPI_THREAD_FUNNELED)
        : world_(program, threads) {}

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
    std::string library() const override { return World::library(); }
    std::string broadcast(const std::string& bytes) override { return world_.broadcast(bytes); }
    std::vector<std::string> gather(const std::string& mine) override { return world_.gather(mine); }
    std::vector<double> largest(std::vector<double> mine) override { return world_.largest(std::move(mine)); }
    void barrier() override { world_.barrier(); }
    void alive(const std::string& doing) override { world_.alive(doing); }
    void set_patience(double seconds) override { world_.set_patience(seconds); }

  protected:
    int provided_threads() const { return world_.thread_level(); }

  private:
    World world_;
};

}  // namespace mpi
}  // namespace tenken
