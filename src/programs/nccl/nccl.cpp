// NCCL collectives between GPUs, of one process or of one MPI rank each: bus bandwidth and time by size.
#include "catalogue/nccl.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "lib/base/clock.h"
#include "lib/base/launched.h"
#include "lib/base/links.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#include "lib/base/sweep.h"
#include "lib/cuda/devices.h"
#include "lib/nccl/report.h"
#include "programs/nccl/ring.h"

namespace nccl {

namespace {

constexpr Collective collectives[] = {{"all_reduce", Operation::all_reduce, Type::fp64},
                                      {"all_reduce_fp32", Operation::all_reduce, Type::fp32},
                                      {"all_reduce_bf16", Operation::all_reduce, Type::bf16},
                                      {"all_gather", Operation::all_gather, Type::fp64},
                                      {"reduce_scatter", Operation::reduce_scatter, Type::fp64},
                                      {"reduce_scatter_fp32", Operation::reduce_scatter, Type::fp32},
                                      {"reduce_scatter_bf16", Operation::reduce_scatter, Type::bf16},
                                      {"sendrecv", Operation::sendrecv, Type::fp64},
                                      {"alltoall", Operation::alltoall, Type::fp64}};
/// Warm-up of all operations but the first.
constexpr double brief_seconds = 0.05;
/// Minimum duration of a repetition. To start it and to wait for its end takes 30 us on two H200: 3 % of it,
/// and 0.3 % from `large` bytes on, where bandwidth is measured, with a fifth of the repetitions.
constexpr double min_seconds = 1e-3;
constexpr double min_seconds_large = 10e-3;
constexpr std::int64_t fewer_large = 5;
constexpr std::int64_t min_repetitions = 20;
constexpr std::uint64_t large = std::uint64_t{1} << 20;
/// Maximum number of operations per repetition.
constexpr long max_times = 1000;

std::vector<std::string> names() {
    std::vector<std::string> all;
    for (const Collective& one : collectives) all.emplace_back(one.name);
    return all;
}

class NcclProgram : public tenken::Program {
  public:
    explicit NcclProgram(tenken::Ranks& ranks) : ranks_(ranks) {}

    std::string name() const override { return "nccl"; }
    std::string purpose() const override {
        return "NCCL between GPUs, all of one process or one of each MPI rank: bus bandwidth in GB/s and "
               "time in us of all_reduce, all_gather, reduce_scatter, sendrecv (a ring) and alltoall; "
               "reductions "
               "in FP64, FP32 and BF16.";
    }

    void options(tenken::Arguments& arguments) override {
        if (apart()) {
            gpus_.options_of_ranks(arguments);
        } else {
            gpus_.options(arguments, false);
        }
        arguments.text("operations", asked_, "LIST", "which: all, or some of " + tenken::joined(names()));
        arguments.bytes("min-bytes", min_bytes_, 1, std::uint64_t{1} << 40,
                        "the smallest size, at least 16 B for each GPU");
        arguments.bytes("max-bytes", max_bytes_, 1024, std::uint64_t{1} << 40,
                        "the largest size sent by a GPU (all_gather: received)");
        arguments.former_name("least-bytes", "min-bytes");
        arguments.former_name("most-bytes", "max-bytes");
        arguments.integer("factor", factor_, 2, 1 << 20, "factor between sizes");
        arguments.flag("as-nodes", as_nodes_,
                       "each rank is a node to NCCL, without peer access and shared memory between them");
    }

    void prepare(const tenken::Arguments& arguments) override {
        wanted_ = tenken::all_or_distinct_words(arguments, "operations", asked_, names());
        if (as_nodes_) {
            if (ranks_.size() < 2) throw arguments.error("as-nodes", "for two or more MPI ranks");
            setenv("NCCL_HOSTID", ("rank" + std::to_string(ranks_.rank())).c_str(), 1);
            setenv("NCCL_P2P_DISABLE", "1", 1);
            setenv("NCCL_SHM_DISABLE", "1", 1);
        }
        // collective: a node without NCCL comes after it, so that the ranks of others do not wait
        if (apart()) {
            gpus_.prepare(arguments, ranks_);
        } else {
            gpus_.prepare(arguments);
        }
        std::string why_not;
        library_ = Library::open(why_not);
        if (!library_) throw tenken::Waived(tenken::Waiver::library_missing, why_not);
        for (const Collective& one : collectives) {
            if (one.type != Type::bf16 || !wanted(one.name) || library_->has_bf16()) continue;
            throw arguments.error("operations", std::string("no ") + one.name + ": NCCL " +
                                                    library_->version() + " is older than 2.10");
        }
        for (const auto& gpu : gpus_.list()) members_.push_back(gpu.get());
        total_ = apart() ? ranks_.size() : static_cast<int>(members_.size());
        if (total_ < 2) {
            throw tenken::Waived(tenken::Waiver::needs_two_gpus, "only 1 GPU is selected or available");
        }
        const std::uint64_t whole = bytes_each * static_cast<std::uint64_t>(total_);
        if (min_bytes_ < whole) {
            throw arguments.error("min-bytes", "at least " + tenken::format_bytes(whole) +
                                                   ", 16 B for each of " + std::to_string(total_) + " GPUs");
        }
        for (const tenken::cuda::Gpu* gpu : members_) {
            const tenken::DeviceDescription& device = gpu->description();
            const std::uint64_t maximum = device.memory_free_bytes / 10 * 9 / 2;
            if (max_bytes_ <= maximum) continue;
            throw arguments.error("max-bytes", "at most " + tenken::format_bytes(maximum) + ": requested " +
                                                   tenken::format_bytes(2 * max_bytes_) +
                                                   " for two arrays, free " +
                                                   tenken::format_bytes(device.memory_free_bytes) +
                                                   " on gpu" + std::to_string(device.index));
        }
    }

    void measure(tenken::Run& run) override {
        UniqueId id{};
        if (ranks_.rank() == 0) library_->check(library_->get_unique_id(&id), "get_unique_id");
        const std::string bytes = ranks_.broadcast(std::string(id.bytes, sizeof id.bytes));
        std::memcpy(id.bytes, bytes.data(), sizeof id.bytes);
        ranks_.alive("joining NCCL");
        ring_.reset(new Ring(*library_, members_, id, apart() ? ranks_.rank() : 0, total_, max_bytes_));
        report_links(run.document);
        double warmup_seconds = run.warmup_seconds;
        bool fault = run.fault == tenken::Fault::element;
        for (const Collective& one : collectives) {
            if (!wanted(one.name)) continue;
            for (const std::uint64_t size :
                 tenken::sweep(min_bytes_, max_bytes_, static_cast<std::uint64_t>(factor_))) {
                const std::uint64_t whole = bytes_each * static_cast<std::uint64_t>(total_);
                measure_one(run, one, size / whole * whole, warmup_seconds, fault);
                warmup_seconds = std::min(warmup_seconds, brief_seconds);
                fault = false;
            }
        }
        tenken::Document& document = run.document;
        document.build.backends = {"nccl"};
        document.build.libraries.emplace_back("NCCL", library_->version());
        if (!ranks_.library().empty()) document.build.mpi = ranks_.library();
        document.placement = tenken::find_placement();
        document.placement.ranks = ranks_.size();
        document.placement.nodes = ranks_.nodes();
        document.path("gpus", total_);
        const char* const nvls = std::getenv("NCCL_NVLS_ENABLE");
        document.path("nvlink_multicast", nvls == nullptr            ? "as NCCL chooses"
                                          : std::string(nvls) == "0" ? "off"
                                                                     : nvls);
        document.path("buffers_by", library_->mem_alloc != nullptr ? "ncclMemAlloc" : "cudaMalloc");
        if (wanted("alltoall"))
            document.path("alltoall_by",
                          library_->all_to_all != nullptr ? "ncclAlltoAll" : "send and receive");
        if (apart()) {
            gpus_.report(document, ranks_);
        } else {
            gpus_.report(document);
        }
        report_.write(document, ranks_);
        ring_.reset();
    }

  private:
    /// A GPU of each rank, not all GPUs of one process.
    bool apart() const { return ranks_.size() > 1; }

    bool wanted(const std::string& name) const {
        return std::find(wanted_.begin(), wanted_.end(), name) != wanted_.end();
    }

    /// How the first GPU is connected to the others: known if all GPUs belong to this process.
    void report_links(tenken::Document& document) {
        if (apart()) return;
        std::string why_not;
        const std::shared_ptr<const tenken::Nvml> nvml = tenken::Nvml::open(why_not);
        std::vector<tenken::LinkedGpu> linked;
        for (const auto& gpu : gpus_.list()) {
            tenken::LinkedGpu one;
            one.description = gpu->description();
            const std::string address = one.description.pci_bus_id.value_or("");
            const tenken::Nvml::Device device = nvml ? nvml->find(address, why_not) : nullptr;
            if (device != nullptr) one.links = nvml->links(device);
            linked.push_back(one);
        }
        for (std::size_t i = 1; i < linked.size(); ++i) {
            tenken::report_link(document, linked.front().description.index, linked[i].description.index,
                                tenken::pair_link(linked.front(), linked[i]));
        }
    }

    void measure_one(tenken::Run& run, const Collective& one, std::uint64_t bytes, double warmup_seconds,
                     bool fault) {
        const std::string doing = std::string(one.name) + ", " + tenken::format_bytes(bytes);
        ranks_.alive(doing);
        ring_->prepare(one, bytes, 0, max_times);
        ranks_.barrier();
        ring_->run(one, bytes, 1);  // loads the kernel, which can last longer than the warm-up
        // All processes must execute the same number, so the slowest one determines the end.
        double total = 0;
        double each = 0;
        for (long times = 1; each == 0 || total < warmup_seconds; times = std::min(2 * times, 64L)) {
            const double begin = tenken::now_seconds();
            ring_->run(one, bytes, times);
            const double seconds = ranks_.largest({tenken::now_seconds() - begin}).front();
            each = std::max(seconds / static_cast<double>(times), 1e-9);
            total += seconds;
        }
        const double least = bytes < large ? min_seconds : min_seconds_large;
        const std::int64_t repetitions = bytes < large ? run.repetitions
                                                       : std::max(std::min(run.repetitions, min_repetitions),
                                                                  run.repetitions / fewer_large);
        const long times = std::max(1L, std::min(max_times, static_cast<long>(std::ceil(least / each))));
        ring_->prepare(one, bytes, 1, times);
        ranks_.barrier();
        std::vector<double> seconds;
        {
            std::vector<std::unique_ptr<tenken::cuda::TimedPart>> watched;
            for (tenken::cuda::Gpu* gpu : members_) watched.emplace_back(new tenken::cuda::TimedPart(*gpu));
            for (std::int64_t i = 0; i < repetitions; ++i) {
                const double begin = tenken::now_seconds();
                ring_->run(one, bytes, times);
                seconds.push_back((tenken::now_seconds() - begin) / static_cast<double>(times));
                ranks_.alive(doing);
            }
        }
        seconds = ranks_.largest(seconds);
        if (fault) ring_->flip_bit(one);
        tenken::Metric metric;
        metric.subject = tenken::Subject::ranks(total_);
        metric.at = {{"bytes", tenken::Json(bytes)}};
        const tenken::ErrorScan errors = ring_->compare(one, bytes, 1);
        run.document.add(
            tenken::of_all(errors.check(catalogue::elements(), metric.subject,
                                        {{"metric", tenken::Json(one.name)}, {"bytes", tenken::Json(bytes)}}),
                           ranks_));
        metric.name = one.name;
        metric.timed(seconds, {{"bytes", static_cast<double>(bytes) * bus_factor(one.operation, total_)},
                               {"calls", static_cast<double>(times)}});
        run.document.add(metric);
    }

    tenken::Ranks& ranks_;
    tenken::cuda::Gpus gpus_;
    std::string asked_ = "all";
    std::uint64_t min_bytes_ = std::uint64_t{1} << 10;
    std::uint64_t max_bytes_ = std::uint64_t{1} << 30;
    std::int64_t factor_ = 4;
    bool as_nodes_ = false;
    std::vector<std::string> wanted_;
    Report report_;
    std::unique_ptr<Library> library_;
    std::vector<tenken::cuda::Gpu*> members_;
    int total_ = 0;
    std::unique_ptr<Ring> ring_;
};

}  // namespace

}  // namespace nccl

int main(int argc, char** argv) {
    const std::unique_ptr<tenken::Ranks> ranks = tenken::launched_ranks("nccl");
    nccl::NcclProgram program(*ranks);
    return tenken::run_program(program, argc, argv, *ranks);
}
