#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "lib/base/gpu_limit.h"
#include "lib/base/gpu_selection.h"
#include "lib/base/program.h"
#include "lib/cuda/devices.h"
#include "lib/cuda/dot.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/verify.cuh"
#include "programs/hpcg/backend.h"
#include "programs/hpcg/cuda_runner.cuh"
#include "programs/hpcg/solver.h"

namespace hpcg {

namespace {

struct Ones {
    __host__ __device__ double operator()(std::size_t i) const {
        return 1.0 + static_cast<double>(i % 1021) / 1024.0;
    }
};

class CudaBackend : public Backend {
  public:
    std::string name() const override { return "cuda"; }

    void options(tenken::Arguments& arguments) override {
        arguments.heading("back end cuda");
        arguments.text(
            "gpus", asked_, "LIST",
            "GPUs assigned to the ranks of a node in turn, by CUDA index: all, or a list such as 0,2");
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
        std::vector<int> indices;
        try {
            indices = tenken::parse_gpu_list(asked_, tenken::cuda::device_count());
        } catch (const tenken::ArgumentError& wrong) {
            throw arguments.error("gpus", wrong.what());
        }
        if (threads_ % 32 != 0) throw arguments.error("threads", "a multiple of 32");
        const auto place = static_cast<std::size_t>(ranks.local_rank());
        nvml_ = tenken::Nvml::open(why_no_nvml_);
        gpu_.reset(new tenken::cuda::Gpu(tenken::cuda::describe(indices[place % indices.size()], nvml_.get()),
                                         nvml_));
        gpu_->use();
        sharing_ = (static_cast<std::uint64_t>(ranks.local_size()) + indices.size() - 1) / indices.size();
        if (sharing_ > 1 && share_ == "off") {
            throw tenken::Waived(tenken::Waiver::needs_two_gpus,
                                 std::to_string(ranks.local_size()) + " ranks on a node with " +
                                     std::to_string(indices.size()) + " GPUs");
        }
        ranks_ = &ranks;
    }

    std::uint64_t free_bytes() const override {
        return gpu_->description().memory_free_bytes / sharing_ / 20 * 19;
    }
    std::string memory() const override { return "gpu" + std::to_string(gpu_->index()); }
    std::uint64_t all_bytes() const override { return gpu_->description().memory_bytes / sharing_; }
    std::uint64_t cache_bytes() const override { return gpu_->description().l2_bytes; }
    tenken::Limit dot_limit() const override { return tenken::memory_limit(gpu_->description()); }

    std::vector<double> dot_rates(long repetitions, double warmup_seconds) override {
        begin();
        const std::uint64_t maximum = std::min<std::uint64_t>(std::uint64_t{2} << 30, free_bytes() / 4);
        const std::size_t elements = maximum / sizeof(double) / 2 * 2;
        tenken::cuda::DeviceArray<double> a(elements);
        tenken::cuda::DeviceArray<double> b(elements);
        tenken::cuda::fill(a.data(), elements, Ones{}, *stream_);
        tenken::cuda::fill(b.data(), elements, Ones{}, *stream_);
        tenken::cuda::Dot dot;
        const auto with = [&](const tenken::cuda::Launch& launch) {
            dot.enqueue(a.data(), b.data(), elements, launch, *stream_);
        };
        const auto launch = tenken::cuda::choose_launch(
            tenken::cuda::reduction_launches(gpu_->description().multiprocessors), *stream_, with);
        const auto run = [&](const tenken::cuda::Stream&) { with(launch); };
        tenken::cuda::warm_up(warmup_seconds, *stream_, run);
        const std::vector<double> seconds = tenken::cuda::time_each(repetitions, *stream_, run).device;
        return tenken::giga_per_second(2.0 * static_cast<double>(a.bytes()), seconds);
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

    tenken::EnergyMeter* energy() override { return &gpu_->energy(); }
    void begin_timed() override { gpu_->health().start(); }
    void end_timed() override { gpu_->health().stop(); }

    void report(tenken::Document& document, Ranks& ranks) override {
        document.build.backends = {"cuda"};
        tenken::cuda::describe_build(document.build);
        if (exchange_) {
            document.path("exchange", exchange_->name());
            document.path("exchange_because", why_);
        }
        report_gpus(document, ranks);
    }

  private:
    void begin() {
        if (stream_) return;
        gpu_->use();
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
        exchange_ = make_exchange(way_, *ranks_, *stream_, sharing_ == 1, maximum, why_);
        Tuning tuning;
        tuning.threads = static_cast<int>(threads_);
        tuning.unroll = std::stoi(unroll_);
        tuning.caching = caching_ == "retaining" ? Caching::retaining : Caching::streaming;
        tuning.graph = graph_ == "on";
        tuning.overlap = overlap_ == "on";
        runner_.reset(new CudaRunner(tuning, *stream_, *exchange_));
    }

    /// Every GPU of rank 0's node once: the document's devices are those of one node.
    void report_gpus(tenken::Document& document, Ranks& ranks) {
        std::string why_not;
        std::string health;
        if (gpu_->health().why_not()) {
            why_not = why_no_nvml_.empty() ? *gpu_->health().why_not() : why_no_nvml_;
        } else {
            health = gpu_->health().finish().json().dump();
        }
        const auto devices = ranks.gather(gpu_->description().json().dump());
        const auto healths = ranks.gather(health);
        const auto reasons = ranks.gather(why_not);
        const auto indices = ranks.gather(std::to_string(gpu_->index()));
        if (ranks.rank() != 0) return;
        document.health.available = true;
        document.health.reason.clear();
        std::vector<std::string> seen;
        for (std::size_t rank = 0; rank < devices.size(); ++rank) {
            const bool here = ranks.nodes().empty() || ranks.nodes()[rank] == ranks.nodes()[0];
            if (!here || std::count(seen.begin(), seen.end(), indices[rank]) > 0) continue;
            seen.push_back(indices[rank]);
            document.more_devices.push_back(tenken::Json::verbatim(devices[rank]));
            if (healths[rank].empty()) {
                document.health.available = false;
                document.health.reason = reasons[rank];
            } else {
                document.health.more_devices.push_back(tenken::Json::verbatim(healths[rank]));
            }
        }
    }

    std::string asked_ = "all";
    std::string way_ = "auto";
    std::string share_ = "off";
    std::string graph_ = "on";
    std::string overlap_ = "on";
    std::int64_t threads_ = 128;
    std::string unroll_ = "3";
    std::string caching_ = "retaining";
    Ranks* ranks_ = nullptr;
    std::uint64_t sharing_ = 1;
    std::string why_no_nvml_;
    std::shared_ptr<const tenken::Nvml> nvml_;
    std::unique_ptr<tenken::cuda::Gpu> gpu_;
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
