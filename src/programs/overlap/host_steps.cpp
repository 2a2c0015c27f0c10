#include <algorithm>
#include <limits>

#include "lib/base/clock.h"
#include "lib/base/host_array.h"
#include "lib/file_io/workers.h"
#include "programs/overlap/steps.h"

namespace overlap {

namespace {

class HostSteps : public Steps {
  public:
    HostSteps(char* state, std::uint64_t bytes, int threads)
        : state_(reinterpret_cast<std::uint32_t*>(state)),
          words_(bytes / sizeof(std::uint32_t)),
          a_(bytes / sizeof(double)),
          b_(bytes / sizeof(double)),
          workers_(threads, [] {}) {
        each(a_.size(), [&](std::uint64_t begin, std::uint64_t end) {
            std::fill(a_.data() + begin, a_.data() + end, 0.0);
            std::fill(b_.data() + begin, b_.data() + end, 1.0);
        });
    }

    int calibrate(double seconds) override {
        return tenken::passes_for(seconds, 5, [this](int passes) { return timed(passes); });
    }

    void set_passes(int passes) override { passes_ = passes; }

    void step(std::uint32_t number) override {
        for (int pass = 0; pass < passes_; ++pass) {
            each(a_.size(), [&](std::uint64_t begin, std::uint64_t end) {
                for (std::uint64_t i = begin; i < end; ++i) a_[i] = 0.5 * a_[i] + b_[i];
            });
        }
        const file_io::Words values = {number, file_io::Words::floats};
        each(words_, [&](std::uint64_t begin, std::uint64_t end) {
            for (std::uint64_t i = begin; i < end; ++i) state_[i] = values(i);
        });
    }

    void copy_state(char* to) override {
        std::uint32_t* const there = reinterpret_cast<std::uint32_t*>(to);
        each(words_, [&](std::uint64_t begin, std::uint64_t end) {
            std::copy(state_ + begin, state_ + end, there + begin);
        });
    }
    std::function<void()> marker() override {
        return [] {};
    }
    void* event() override { return nullptr; }
    void wait() override {}

  private:
    /// The shortest of three steps, in seconds: a disturbed one does not represent the steps of a loop.
    double timed(int passes) {
        passes_ = passes;
        double shortest = std::numeric_limits<double>::infinity();
        for (int i = 0; i < 3; ++i) {
            const double begin = tenken::now_seconds();
            step(1);
            shortest = std::min(shortest, tenken::now_seconds() - begin);
        }
        return shortest;
    }

    template <typename Part>
    void each(std::uint64_t items, const Part& part) {
        const std::uint64_t parts = static_cast<std::uint64_t>(workers_.maximum());
        workers_.run(workers_.maximum(), [&](int t) {
            const std::uint64_t i = static_cast<std::uint64_t>(t);
            part(items * i / parts, items * (i + 1) / parts);
        });
    }

    std::uint32_t* state_;
    std::uint64_t words_;
    tenken::HostArray a_;
    tenken::HostArray b_;
    file_io::Workers workers_;
    int passes_ = 1;
};

}  // namespace

std::unique_ptr<Steps> make_host_steps(char* state, std::uint64_t bytes, int threads) {
    return std::unique_ptr<Steps>(new HostSteps(state, bytes, threads));
}

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<Steps> make_gpu_steps(char*, std::uint64_t) {
    return nullptr;
}
#endif

}  // namespace overlap
