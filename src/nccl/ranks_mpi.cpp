#include "common/mpi/world.h"
#include "nccl/ranks.h"

namespace nccl {

namespace {

class MpiRanks : public Ranks {
  public:
    explicit MpiRanks(const std::string& program) : world_(program) {}

    void begin() override { world_.begin(); }
    bool speaks() const override { return world_.speaks(); }
    State agree(const State& mine) override { return world_.agree(mine); }
    void abandon(const std::string& what) override { world_.abandon(what); }
    void set_last_will(std::function<void(const std::string&)> will) override {
        world_.set_last_will(std::move(will));
    }
    void end() override { world_.end(); }

    int process() const override { return world_.rank(); }
    int processes() const override { return world_.size(); }
    int local_process() const override { return world_.local_rank(); }
    int local_processes() const override { return world_.local_size(); }
    std::vector<std::string> nodes() const override { return world_.nodes(); }
    std::string library() const override { return tenken::mpi::World::library(); }
    std::string broadcast(const std::string& bytes) override { return world_.broadcast(bytes); }
    std::vector<std::string> gather(const std::string& mine) override { return world_.gather(mine); }
    std::vector<double> largest(std::vector<double> mine) override { return world_.largest(std::move(mine)); }
    void barrier() override { world_.barrier(); }
    void alive(const std::string& doing) override { world_.alive(doing); }
    void set_patience(double seconds) override { world_.set_patience(seconds); }

  private:
    tenken::mpi::World world_;
};

}  // namespace

std::unique_ptr<Ranks> make_ranks(const std::string& program) {
    return std::unique_ptr<Ranks>(tenken::mpi::launched_rank() >= 0 ? new MpiRanks(program) : new Ranks);
}

}  // namespace nccl
