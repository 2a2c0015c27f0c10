#include <stdexcept>

#include "lib/base/host.h"
#include "lib/base/host_dot.h"
#include "programs/hpcg/backend.h"
#include "programs/hpcg/host_runner.h"
#include "programs/hpcg/solver.h"

namespace hpcg {

namespace {

class HostBackend : public Backend {
  public:
    std::string name() const override { return "host"; }

    void options(tenken::Arguments& arguments) override {
        arguments.choice("columns", columns_, {"runs", "listed"},
                         "host: where the columns of neighbouring rows follow each other, keep the first of "
                         "them; or list the column of every entry");
    }

    void prepare(const tenken::Arguments&, Ranks& ranks) override {
        local_size_ = static_cast<std::uint64_t>(ranks.local_size());
        runner_.reset(new HostRunner(ranks, columns_ == "runs"));
    }

    std::uint64_t free_bytes() const override { return tenken::available_memory_bytes() / local_size_; }
    std::string memory() const override { return "the host"; }
    std::uint64_t all_bytes() const override { return tenken::describe_host().memory_bytes / local_size_; }
    std::uint64_t cache_bytes() const override {
        return tenken::describe_host().last_level_cache_bytes.value_or(0) / local_size_;
    }
    tenken::Limit dot_limit() const override {
        return tenken::Limit::unknown("the memory clock and channels of a host cannot be queried");
    }

    std::vector<double> dot_rates(long repetitions, double warmup_seconds) override {
        const std::uint64_t bytes = std::max<std::uint64_t>(2 * cache_bytes(), std::uint64_t{64} << 20);
        tenken::HostArray a(bytes / sizeof(double));
        tenken::HostArray b(a.size());
        tenken::in_shares(a.size(), [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) a[i] = b[i] = 1 + static_cast<double>(i % 1021) / 1024;
        });
        double sum = 0;
        const auto dot = [&] { sum += tenken::dot_on_host(a, b); };
        tenken::warm_up(warmup_seconds, dot);
        const std::vector<double> seconds = tenken::time_each(repetitions, dot);
        if (!(sum > 0)) throw std::runtime_error("the dot product of positive numbers is not positive");
        return tenken::giga_per_second(2.0 * static_cast<double>(a.bytes()), seconds);
    }

    void generate(const std::vector<Part>& parts) override { problem_ = hpcg::generate(*runner_, parts); }
    std::unique_ptr<Engine> given_order() override {
        return std::unique_ptr<Engine>(new GivenOrder<HostRunner>(*runner_, problem_));
    }
    std::unique_ptr<Engine> optimised(bool spoil_colour) override {
        return Optimised<HostRunner>::make_from(*runner_, problem_, spoil_colour);
    }
    tenken::Meter* energy() override { return meter_.there() ? &meter_ : nullptr; }
    void shuffle(std::uint64_t seed) override { problem_ = shuffled(*runner_, problem_, seed); }
    void forget() override { problem_ = Problem<HostRunner>(); }

    void report(tenken::Document& document, Ranks& ranks) override {
        document.build.backends = {"host"};
        document.path("columns", columns_);
        if (ranks.size() > 1) document.path("exchange", "mpi, host memory");
    }

  private:
    tenken::HostEnergyMeter meter_;
    std::string columns_ = "runs";
    std::uint64_t local_size_ = 1;
    std::unique_ptr<HostRunner> runner_;
    Problem<HostRunner> problem_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend() {
    return std::unique_ptr<Backend>(new HostBackend);
}

}  // namespace hpcg
