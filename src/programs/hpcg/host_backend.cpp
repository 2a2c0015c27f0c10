#include "lib/base/host_dot.h"
#include "programs/hpcg/backend.h"
#include "programs/hpcg/host_runner.h"
#include "programs/hpcg/solver.h"

namespace hpcg {

namespace {

class HostBackend : public tenken::HostRankBackend<Backend> {
  public:
    void options(tenken::Arguments& arguments) override {
        arguments.choice("columns", columns_, {"runs", "listed"},
                         "host: where the columns of neighbouring rows follow each other, keep the first of "
                         "them; or list the column of every entry");
    }

    void prepare(const tenken::Arguments&, Ranks& ranks) override {
        share_with(ranks);
        runner_.reset(new HostRunner(ranks, columns_ == "runs"));
    }

    std::string memory() const override { return "the host"; }
    std::uint64_t all_bytes() const override { return tenken::own_memory_bytes() / local_ranks(); }
    std::uint64_t cache_bytes() const override {
        return tenken::describe_host().last_level_cache_bytes.value_or(0) / local_ranks();
    }

    tenken::TimedDots time_dots(long repetitions, double warmup_seconds) override {
        return tenken::time_dots_on_host(cache_bytes(), repetitions, warmup_seconds);
    }

    void generate(const std::vector<Part>& parts) override { problem_ = hpcg::generate(*runner_, parts); }
    std::unique_ptr<Engine> given_order() override {
        return std::unique_ptr<Engine>(new GivenOrder<HostRunner>(*runner_, problem_));
    }
    std::unique_ptr<Engine> optimised(bool spoil_colour) override {
        return Optimised<HostRunner>::make_from(*runner_, problem_, spoil_colour);
    }
    void shuffle(std::uint64_t seed) override { problem_ = shuffled(*runner_, problem_, seed); }
    void forget() override { problem_ = Problem<HostRunner>(); }

    void report(tenken::Document& document, tenken::Ranks& ranks) override {
        document.build.backends = {"host"};
        document.path("columns", columns_);
        if (ranks.size() > 1) document.path("exchange", "mpi, host memory");
    }

  private:
    std::string columns_ = "runs";
    std::unique_ptr<HostRunner> runner_;
    Problem<HostRunner> problem_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend() {
    return std::unique_ptr<Backend>(new HostBackend);
}

}  // namespace hpcg
