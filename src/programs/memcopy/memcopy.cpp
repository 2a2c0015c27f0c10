// A[i] = B[i] in double precision, with every repetition recorded: on GPUs by a kernel and by cudaMemcpy, on
// the host in pinned and in pageable memory, optimised and unoptimised.
#include "catalogue/memcopy.h"

#include <algorithm>
#include <set>

#include "lib/base/host.h"
#include "lib/base/host_array.h"
#include "lib/base/host_copy.h"
#include "lib/base/streaming_store.h"
#include "lib/base/sweep.h"
#include "lib/base/timed_anew.h"
#include "programs/memcopy/copies.h"

namespace memcopy {

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<GpuCopies> make_gpu_copies() {
    return nullptr;
}
#endif

namespace {

struct Kind {
    const char* name;
    bool on_gpu;
    bool needs_cuda;
    bool optimised;
};
constexpr Kind kinds[] = {
    {"kernel", true, true, true},          {"memcpy", true, true, true},
    {"host_pinned", false, true, true},    {"host_pinned_unoptimised", false, true, false},
    {"host_pageable", false, false, true}, {"host_pageable_unoptimised", false, false, false}};

Buffer pageable(std::size_t elements) {
    const auto array = std::make_shared<tenken::HostArray>(elements);
    return Buffer(array, array->data());
}

class Memcopy : public tenken::Program {
  public:
    Memcopy() : gpu_(make_gpu_copies()) {}

    std::string name() const override { return "memcopy"; }
    std::string purpose() const override {
        return "Memory copy A[i] = B[i] in double precision, in GB/s (10^9 bytes, read + written), every "
               "repetition kept in order.";
    }
    std::int64_t default_repetitions() const override { return 200; }

    void options(tenken::Arguments& arguments) override {
        arguments.choice("backend", backend_, tenken::backends(gpu_ != nullptr),
                         "host: copies in pageable host memory; cuda: on the GPUs, and on the host in pinned "
                         "and pageable memory");
        arguments.bytes(
            "bytes", bytes_, 4096, std::uint64_t{1} << 50,
            "bytes of each of the two arrays, rounded down to whole elements of 8; at least 4 x the "
            "last-level cache (L2 of a GPU)");
        arguments.integer("trials", trials_, 1, 1000,
                          "number of repetitions of the whole measurement, including allocation");
        arguments.text("copies", asked_, "LIST",
                       "which copies: all of the back end's, or some of " + tenken::joined(allowed("cuda")));
        if (gpu_) {
            arguments.heading("back end cuda");
            gpu_->options(arguments);
        }
    }

    void prepare(const tenken::Arguments& arguments) override {
        chosen_ = choose(arguments);
        plan_.elements = bytes_ / sizeof(double);
        plan_.trials = static_cast<long>(trials_);
        bytes_ = plan_.bytes();
        const auto is = [&](bool Kind::* what) {
            return std::any_of(chosen_.begin(), chosen_.end(), [&](const Kind* kind) { return kind->*what; });
        };
        if (std::any_of(chosen_.begin(), chosen_.end(), [](const Kind* kind) { return !kind->on_gpu; })) {
            require_host_fit(arguments);
        }
        if (is(&Kind::needs_cuda)) gpu_->prepare(arguments);
        if (is(&Kind::on_gpu)) gpu_->require_fit(arguments, plan_);
    }

    void measure(tenken::Run& run) override {
        plan_.repetitions = static_cast<long>(run.repetitions);
        plan_.warmup_seconds = run.warmup_seconds;
        std::vector<Series> all;
        bool with_gpu = false;
        for (std::size_t i = 0; i < chosen_.size(); ++i) {
            const Kind& kind = *chosen_[i];
            with_gpu = with_gpu || kind.needs_cuda;
            plan_.fault = i == 0 ? run.fault : tenken::Fault::none;
            const std::vector<Series> some =
                kind.on_gpu ? gpu_->measure(kind.name, plan_) : std::vector<Series>{measure_on_host(kind)};
            all.insert(all.end(), some.begin(), some.end());
        }

        tenken::Document& document = run.document;
        document.build.backends = tenken::backends(gpu_ != nullptr);
        document.placement = tenken::find_placement();
        document.placement.numa_nodes_of_memory = numa_nodes_;
        document.path("backend", backend_);
        document.path("host_stores", TENKEN_HAS_STREAMING_STORES ? "streaming" : "as the compiler chose");
        if (with_gpu) gpu_->describe(document);
        for (const Series& series : all) report(series, document);
        for (const Series& series : all) {
            for (const tenken::Check& check : series.checks) document.add(check);
        }
    }

  private:
    static std::vector<std::string> allowed(const std::string& backend) {
        std::vector<std::string> names;
        for (const Kind& kind : kinds) {
            if (backend == "cuda" || !kind.needs_cuda) names.push_back(kind.name);
        }
        return names;
    }

    std::vector<const Kind*> choose(const tenken::Arguments& arguments) const {
        std::vector<const Kind*> chosen;
        for (const std::string& name : tenken::all_or_distinct_words(
                 arguments, "copies", asked_, allowed(backend_), " with --backend " + backend_)) {
            for (const Kind& kind : kinds) {
                if (name == kind.name) chosen.push_back(&kind);
            }
        }
        return chosen;
    }

    void require_host_fit(const tenken::Arguments& arguments) const {
        const std::uint64_t cache = tenken::describe_host().last_level_cache_bytes.value_or(0);
        if (bytes_ < 4 * cache) {
            throw arguments.error("bytes", "at least " + tenken::format_bytes(4 * cache) +
                                               ", 4 x the last-level cache of " +
                                               tenken::format_bytes(cache));
        }
        const std::uint64_t available = tenken::available_memory_bytes();
        if (bytes_ > available / 10 * 9 / 2) {
            throw arguments.error("bytes", "at most " + tenken::format_bytes(available / 10 * 9 / 2) +
                                               " each: requested " + tenken::format_bytes(2 * bytes_) +
                                               " of host memory for two arrays, free " +
                                               tenken::format_bytes(available));
        }
    }

    Series measure_on_host(const Kind& kind) {
        Series series;
        series.name = kind.name;
        const auto copy = kind.optimised ? tenken::copy_on_host : tenken::copy_on_host_unoptimised;
        const std::size_t n = plan_.elements;
        for (long trial = 0; trial < plan_.trials; ++trial) {
            const Buffer to = kind.needs_cuda ? gpu_->pinned(n) : pageable(n);
            const Buffer from = kind.needs_cuda ? gpu_->pinned(n) : pageable(n);
            tenken::fill_on_host(from.get(), n, 1);
            tenken::fill_on_host(to.get(), n, 0);
            series.seconds.push_back(tenken::timed_anew(
                plan_.warmup_seconds, plan_.repetitions, [&] { tenken::fill_on_host(from.get(), n, 2); },
                [&] { copy(to.get(), from.get(), n); }));
            for (int node : tenken::numa_nodes_of(to.get(), plan_.bytes())) numa_nodes_.insert(node);
            for (int node : tenken::numa_nodes_of(from.get(), plan_.bytes())) numa_nodes_.insert(node);
            if (plan_.fault == tenken::Fault::element) {
                to.get()[n - 1] = tenken::with_flipped_bit(to.get()[n - 1]);
            }
            series.checks.push_back(tenken::compare_on_host(to.get(), n, 2)
                                        .check(catalogue::host_copy(), series.subject, series.at()));
        }
        return series;
    }

    void report(const Series& series, tenken::Document& document) const {
        const double moved = 2.0 * static_cast<double>(bytes_);
        tenken::Metric metric;
        metric.name = series.name;
        metric.subject = series.subject;
        metric.clock = series.clock;
        for (std::size_t trial = 0; trial < series.seconds.size(); ++trial) {
            metric.timed(series.seconds[trial], {{"bytes", moved}});
            if (series.seconds.size() > 1) metric.at = {{"trial", tenken::Json(trial + 1)}};
            document.add(metric);
        }
        if (series.host_seconds.empty()) return;
        document.path("host_clock_gbs." + series.name + "." + series.subject.text(),
                      tenken::median(tenken::giga_per_second(moved, series.host_seconds)));
    }

    std::unique_ptr<GpuCopies> gpu_;
    std::string backend_ = "host";
    std::uint64_t bytes_ = 4000000000;
    std::int64_t trials_ = 1;
    std::string asked_ = "all";
    std::vector<const Kind*> chosen_;
    Plan plan_;
    std::set<int> numa_nodes_;
};

}  // namespace

}  // namespace memcopy

int main(int argc, char** argv) {
    memcopy::Memcopy program;
    return tenken::run_program(program, argc, argv);
}
