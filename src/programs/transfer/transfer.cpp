// Transfers between host and device memory: host to device, device to host, bidirectional, within the device;
// by copy engines and by kernels; from pinned, pageable, write-combined and managed memory; by size.
#include "catalogue/transfer.h"

#include <algorithm>
#include <cstring>

#include "lib/base/clock.h"
#include "lib/base/copy_values.h"
#include "lib/base/host.h"
#include "lib/base/placement.h"
#include "lib/base/sweep.h"
#include "lib/base/timed_anew.h"
#include "programs/transfer/transfers.h"

namespace transfer {

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<GpuTransfers> make_gpu_transfers() {
    return nullptr;
}
#endif

namespace {

/// In the order measured; words of --kinds. Each has the metrics that begin with it or, for a direction,
/// are listed under it in metrics.yaml.
const std::vector<std::string>& kinds() {
    static const std::vector<std::string> list = {"pinned",   "both",    "dtod", "sm",      "write_combined",
                                                  "pageable", "managed", "numa", "latency", "sweep"};
    return list;
}

class Transfer : public tenken::Program {
  public:
    Transfer() : gpu_(make_gpu_transfers()) {}

    std::string name() const override { return "transfer"; }
    std::string purpose() const override {
        return "Transfers between host and device memory in GB/s (10^9 bytes, each byte once) by cudaMemcpy "
               "and by "
               "kernels, from every kind of host memory, and their latency in us.";
    }

    void options(tenken::Arguments& arguments) override {
        arguments.choice(
            "backend", backend_, tenken::backends(gpu_ != nullptr),
            "host: memcpy within host memory by one thread, by size; cuda: with every GPU in turn");
        arguments.bytes(
            "bytes", bytes_, 4096, std::uint64_t{1} << 50,
            "bytes of one array of a series, rounded down to whole elements of 8; slow transfers (kernels "
            "over the link, pageable, managed) use a quarter of it, and a fifth of the repetitions");
        arguments.bytes("sweep-max-bytes", sweep_max_, 1024, std::uint64_t{1} << 50,
                        "the largest size of the sweep, from 1 KiB in factors of 4");
        arguments.former_name("sweep-most-bytes", "sweep-max-bytes");
        arguments.integer(
            "trials", trials_, 1, 1000,
            "number of repetitions of the series from and to pinned memory, including allocation");
        arguments.text(
            "kinds", asked_, "LIST",
            "which kinds: all, or some of " + tenken::joined(kinds()) + " (host back end: sweep alone)");
        if (!gpu_) return;
        arguments.heading("back end cuda");
        gpu_->options(arguments);
    }

    void prepare(const tenken::Arguments& arguments) override {
        chosen_ = tenken::all_or_distinct_words(arguments, "kinds", asked_,
                                                on_host() ? std::vector<std::string>{"sweep"} : kinds(),
                                                " with --backend " + backend_);
        plan_.elements = bytes_ / sizeof(double);
        bytes_ = plan_.elements * sizeof(double);
        plan_.maximum = sweep_max_ / sizeof(double);
        plan_.trials = static_cast<long>(trials_);
        const std::uint64_t available = tenken::available_memory_bytes();
        const std::uint64_t maximum = available / 10 * 9 / 2;
        if (std::max(bytes_, sweep_max_) > maximum) {
            const bool series = bytes_ >= sweep_max_;
            throw arguments.error(series ? "bytes" : "sweep-max-bytes",
                                  "at most " + tenken::format_bytes(maximum) + ": requested " +
                                      tenken::format_bytes(2 * std::max(bytes_, sweep_max_)) +
                                      " for two arrays, free " + tenken::format_bytes(available) +
                                      " on the host");
        }
        if (on_host()) return;
        gpu_->prepare(arguments);
        gpu_->require_fit(arguments, plan_);
    }

    void measure(tenken::Run& run) override {
        plan_.repetitions = static_cast<long>(run.repetitions);
        plan_.warmup_seconds = run.warmup_seconds;
        tenken::Document& document = run.document;
        document.build.backends = tenken::backends(gpu_ != nullptr);
        document.path("backend", backend_);
        for (std::size_t i = 0; i < chosen_.size(); ++i) {
            plan_.fault = i == 0 ? run.fault : tenken::Fault::none;
            const std::vector<Series> all =
                on_host() ? host_sweep() : gpu_->measure(chosen_[i], plan_, document);
            for (const Series& series : all) {
                document.add(series.metric);
                for (const tenken::Check& check : series.checks) document.add(check);
            }
        }
        document.placement = tenken::find_placement();
        if (!on_host()) gpu_->describe(document);
    }

  private:
    bool on_host() const { return backend_ == "host"; }

    /// memcpy() by one thread: as a driver stages pageable memory.
    std::vector<Series> host_sweep() const {
        std::vector<Series> all;
        for (std::size_t n = 1024 / sizeof(double); n <= plan_.maximum; n *= 4) {
            const tenken::Buffer from = tenken::allocate_pageable(n);
            const tenken::Buffer to = tenken::allocate_pageable(n);
            tenken::fill_on_host(from.get(), n, 1);
            tenken::fill_on_host(to.get(), n, 0);
            // Many small copies per sample: a single one is below the clock's resolution.
            const long inner = static_cast<long>(std::max<std::size_t>(1, (std::size_t{1} << 17) / n));
            const auto copy = [&] {
                for (long i = 0; i < inner; ++i) {
                    std::memcpy(to.get(), from.get(), n * sizeof(double));
                    asm volatile("" : : "r"(to.get()) : "memory");  // each of them is required
                }
            };
            Series series;
            series.metric.name = "host_sweep";
            series.metric.at = {{"bytes", tenken::Json(static_cast<std::uint64_t>(n * sizeof(double)))}};
            const double moved = static_cast<double>(inner) * static_cast<double>(n * sizeof(double));
            const auto renew = [&] { tenken::fill_on_host(from.get(), n, 2); };
            series.metric.timed(tenken::timed_anew(0, plan_.repetitions, renew, copy), {{"bytes", moved}});
            if (plan_.fault == tenken::Fault::element && all.empty()) {
                to.get()[n - 1] = tenken::with_flipped_bit(to.get()[n - 1]);
            }
            series.checks.push_back(
                tenken::compare_on_host(to.get(), n, 2)
                    .check(catalogue::host_copied(), series.metric.subject, series.metric.at));
            all.push_back(series);
        }
        return all;
    }

    std::unique_ptr<GpuTransfers> gpu_;
    std::string backend_ = "host";
    std::uint64_t bytes_ = 1000000000;
    std::uint64_t sweep_max_ = std::uint64_t{64} << 20;
    std::int64_t trials_ = 1;
    std::string asked_ = "all";
    std::vector<std::string> chosen_;
    Plan plan_;
};

}  // namespace

}  // namespace transfer

int main(int argc, char** argv) {
    transfer::Transfer program;
    return tenken::run_program(program, argc, argv);
}
