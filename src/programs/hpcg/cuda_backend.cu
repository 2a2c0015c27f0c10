#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>

#include "lib/cuda/dot.h"
#include "lib/cuda/gpus.h"
#include "programs/hpcg/backend.h"
#include "programs/hpcg/cuda_runner.cuh"
#include "programs/hpcg/solver.h"

namespace hpcg {

namespace {

class CudaBackend : public Backend {
  public:
    std::string name() const override { return "cuda"; }

    void options(tenken::Arguments& arguments) override {
        arguments.heading("back end cuda");
        gpus_.options_of_ranks(arguments);
        arguments.choice(
            "exchange", way_, {"auto", "peer", "nccl", "mpi", "host"},
            "between GPUs: their own stores (one node), NCCL, an MPI that takes device pointers, or through "
            "the host; auto: the first available of peer, nccl and host");
        arguments.choice("share", share_, {"off", "on"},
                         "whether ranks may share a GPU; off: such a run is waived");
        arguments.choice("graph", graph_, {"on", "off"},
                         "whether the multigrid cycle is launched as one CUDA graph");
        arguments.choice(
            "overlap", overlap_, {"on", "off"},
            "whether a pass may start before the previous one has ended (compute capability 9.0)");
        arguments.integer("threads", threads_, 64, 256, "threads of a block in passes over the matrix");
        arguments.choice("unroll", unroll_, {"3", "4", "6"}, "entries of a row that a thread loads at once");
        arguments.choice("caching", caching_, {"streaming", "retaining"},
                         "loads of the matrix: ld.cs, or by policies that keep the vector in the L2");
    }

    void prepare(const tenken::Arguments& arguments, Ranks& ranks) override {
        // Kernels are loaded now, not when the timed optimisation phase first needs them.
        setenv("CUDA_MODULE_LOADING", "EAGER", 0);
        if (threads_ % 32 != 0) throw arguments.error("threads", "a multiple of 32");
        gpus_.prepare(arguments, ranks, share_ == "on");
        ranks_ = &ranks;
    }

    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu().index()); }
    std::uint64_t free_bytes() const override {
        return gpu().description().memory_free_bytes / gpus_.sharing() / 20 * 19;
    }
    std::string memory() const override { return "gpu" + std::to_string(gpu().index()); }
    std::uint64_t all_bytes() const override { return gpu().description().memory_bytes / gpus_.sharing(); }
    std::uint64_t cache_bytes() const override { return gpu().description().l2_bytes; }

    tenken::TimedDots time_dots(long repetitions, double warmup_seconds) override {
        begin();
        return tenken::cuda::time_dots(*gpus_.list().front(), *stream_, free_bytes(), repetitions,
                                       warmup_seconds);
    }

    void generate(const std::vector<Part>& parts) override {
        begin();
        make_runner(parts);
        problem_ = hpcg::generate(*runner_, parts);
    }
    std::unique_ptr<Engine> given_order() override {
        return std::unique_ptr<Engine>(new GivenOrder<CudaRunner>(*runner_, problem_));
    }
    std::unique_ptr<Engine> optimised(bool spoil_colour) override {
        return Optimised<CudaRunner>::make_from(*runner_, problem_, spoil_colour);
    }
    void shuffle(std::uint64_t seed) override { problem_ = shuffled(*runner_, problem_, seed); }
    void forget() override { problem_ = Problem<CudaRunner>(); }

    tenken::EnergyMeter* energy() override { return &gpus_.list().front()->energy(); }
    void watch(const std::function<void()>& work) override {
        const tenken::cuda::TimedPart watched(*gpus_.list().front());
        work();
    }

    void report(tenken::Document& document, tenken::Ranks& ranks) override {
        document.build.backends = {"cuda"};
        if (exchange_) {
            document.path("exchange", exchange_->name());
            document.path("exchange_because", why_);
        }
        gpus_.report(document, ranks);
    }

  private:
    const tenken::cuda::Gpu& gpu() const { return *gpus_.list().front(); }

    void begin() {
        if (stream_) return;
        gpu().use();
        stream_.reset(new tenken::cuda::Stream);
    }

    void make_runner(const std::vector<Part>& parts) {
        if (runner_) return;
        int maximum = 0;
        for (const Part& part : parts) {
            for (const Neighbour& neighbour : part.halo.neighbours)
                maximum = std::max(maximum, neighbour.count);
        }
        maximum = static_cast<int>(ranks_->largest({static_cast<double>(maximum)}).front());
        exchange_ = make_exchange(way_, *ranks_, *stream_, gpus_.sharing() == 1, maximum, why_);
        Tuning tuning;
        tuning.threads = static_cast<int>(threads_);
        tuning.unroll = std::stoi(unroll_);
        tuning.caching = caching_ == "retaining" ? Caching::retaining : Caching::streaming;
        tuning.graph = graph_ == "on";
        tuning.overlap = overlap_ == "on";
        runner_.reset(new CudaRunner(tuning, *stream_, *exchange_));
    }

    std::string way_ = "auto";
    std::string share_ = "off";
    std::string graph_ = "on";
    std::string overlap_ = "on";
    std::int64_t threads_ = 128;
    std::string unroll_ = "3";
    std::string caching_ = "retaining";
    Ranks* ranks_ = nullptr;
    tenken::cuda::Gpus gpus_;  ///< that of this rank alone
    std::string why_;
    // In the order of construction: each uses the previous ones.
    std::unique_ptr<tenken::cuda::Stream> stream_;
    std::unique_ptr<Exchange> exchange_;
    std::unique_ptr<CudaRunner> runner_;
    Problem<CudaRunner> problem_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend() {
    return std::unique_ptr<Backend>(new CudaBackend);
}

}  // namespace hpcg
