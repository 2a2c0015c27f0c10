#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "lib/base/program.h"
#include "lib/lu/gpu_backend.h"
#include "programs/hpl_mxp/backend.h"
#include "programs/hpl_mxp/gpu_engine.h"

namespace mxp {

namespace {

/// Part of the free memory filled by the default problem, and its maximum order: the time grows as N^3.
constexpr double usual_fill = 0.88;
constexpr std::int64_t largest_usual = 163840;

class CudaBackend : public lu::GpuBackend<Backend> {
  public:
    void own_options(tenken::Arguments& arguments) override {
        arguments.choice("panel", panel_, {"tf32", "fp32"},
                         "products of panels and rows of U with inverted triangles of 512");
        arguments.integer(
            "panel-multiprocessors", panel_multiprocessors_, 0, 64,
            "multiprocessors that updates leave free for the many small kernels of the next panel; 0: none");
        arguments.choice(
            "algorithms", algorithms_, {"tried", "first"},
            "algorithm of the update: the fastest that the library proposes, or its first proposal");
    }

    void prepare(const tenken::Arguments& arguments, lu::Ranks& ranks, Low low) override {
        low_ = low;
        select(arguments, ranks);
        processes_ = ranks.size();
        const double capability = std::atof(gpu().description().compute_capability.c_str());
        const double wanted = low == Low::fp16 ? 7.0 : low == Low::bf16 ? 8.0 : 8.9;
        if (capability < wanted)
            throw tenken::Waived(tenken::Waiver::not_supported_by_the_device,
                                 "products of this format need compute capability " +
                                     tenken::Json(wanted).dump() + ", this is " +
                                     gpu().description().compute_capability);
        communicator(ranks, 1, processes_);  // before the measurement
    }

    std::int64_t tile() const override { return gpu_tile; }

    /// The largest multiple of 4096 that fits, for all GPUs together; with several of them 163840 sqrt(Q), so
    /// that each has the same memory.
    std::int64_t usual_n() const override {
        const double most = static_cast<double>(largest_usual) * std::sqrt(static_cast<double>(processes_));
        std::int64_t n = static_cast<std::int64_t>(most) / 4096 * 4096;
        while (n > 8192 && static_cast<double>(needed_bytes(n, usual_nb(), processes_)) >
                               usual_fill * static_cast<double>(free_bytes()))
            n -= 4096;
        return n;
    }
    std::int64_t usual_nb() const override { return 4096; }
    std::uint64_t needed_bytes(std::int64_t n, std::int64_t nb, int processes) const override {
        return gpu_bytes(n, nb, processes, low_);
    }
    std::unique_ptr<Engine> make(std::int64_t n, std::int64_t nb, lu::Ranks& ranks) override {
        GpuChoices choices;
        choices.low = low_;
        choices.tf32_panels = panel_ == "tf32";
        choices.try_algorithms = algorithms_ == "tried";
        choices.panel_multiprocessors = static_cast<int>(panel_multiprocessors_);
        return make_gpu_engine(n, nb, ranks, choices, communicator(ranks, 1, processes_));
    }

  private:
    Low low_ = Low::fp16;
    int processes_ = 1;
    std::string panel_ = "tf32";
    std::int64_t panel_multiprocessors_ = 8;
    std::string algorithms_ = "tried";
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend() {
    return std::unique_ptr<Backend>(new CudaBackend);
}

}  // namespace mxp
