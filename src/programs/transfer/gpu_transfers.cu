// The transfers that need a GPU. Every repetition is timed by events behind a gate, unless the host takes
// part: pageable memory, and managed memory that the host must touch again.
#include <cuda_runtime.h>

#include <algorithm>
#include <set>

#include "catalogue/transfer.h"
#include "lib/base/copy_values.h"
#include "lib/base/placement.h"
#include "lib/base/text_file.h"
#include "lib/cuda/copy.h"
#include "lib/cuda/copy_values.cuh"
#include "lib/cuda/gpus.h"
#include "lib/cuda/managed.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/verify.cuh"
#include "programs/transfer/transfers.h"

namespace transfer {

namespace {

using tenken::cuda::CopyValues;
using tenken::cuda::DeviceArray;
using tenken::cuda::Gating;
using tenken::cuda::ManagedArray;
using tenken::cuda::PinnedArray;
using tenken::cuda::Stream;

typedef std::vector<Series> All;

/// One direction of a copy between a host array and a device array.
struct Direction {
    const char* name;
    bool to_device;
};
constexpr Direction directions[] = {{"htod", true}, {"dtoh", false}};

/// Measures on one GPU.
class OneGpu {
  public:
    OneGpu(tenken::cuda::Gpu& gpu, const Plan& plan, tenken::Document& document)
        : gpu_(gpu), plan_(plan), document_(document) {}

    All measure(const std::string& name) {
        if (name == "pinned") return trials();
        if (name == "both") return {both()};
        if (name == "dtod") return {within(false), within(true)};
        if (name == "sm") return by_kernel();
        if (name == "write_combined") return write_combined();
        if (name == "pageable") return pageable();
        if (name == "managed") return managed();
        if (name == "numa") return numa();
        if (name == "latency") return latency();
        return sweep();
    }

  private:
    Series start(const std::string& name) const {
        Series series;
        series.metric.name = name;
        series.metric.subject = tenken::Subject::gpu(gpu_.index());
        series.metric.clock = "device";
        return series;
    }

    void fill_device(double* array, std::size_t n, int pattern) {
        tenken::cuda::fill(array, n, CopyValues{pattern}, stream_);
        stream_.synchronize();
    }

    /// The GPU writes it, since no core may have the source of a copy to the device in its cache. Nothing on
    /// the CPU touches it from here to the end of the timed part.
    void fill_pinned(double* array, std::size_t n, int pattern) {
        tenken::cuda::fill_pinned(array, n, pattern, stream_);
    }

    /// --inject-fault element changes the first compared destination.
    void spoil(double* array, std::size_t n) {
        if (plan_.fault == tenken::Fault::element && !spoilt_) tenken::cuda::flip_bit(array, n - 1);
        spoilt_ = true;
    }

    tenken::Check on_device(double* array, std::size_t n, int pattern, const Series& of) {
        spoil(array, n);
        return checked(of, tenken::cuda::compare(array, n, CopyValues{pattern}, 0, stream_));
    }

    tenken::Check on_host(double* array, std::size_t n, int pattern, const Series& of) {
        spoil(array, n);
        return checked(of, tenken::compare_on_host(array, n, pattern));
    }

    static tenken::Check checked(const Series& of, const tenken::ErrorScan& errors) {
        tenken::At at = of.metric.at;
        at.emplace_back("metric", tenken::Json(of.metric.name));
        return errors.check(catalogue::copied(), of.metric.subject, at);
    }

    static void enqueue(double* to, const double* from, std::size_t n, const Stream& stream) {
        TENKEN_CUDA(cudaMemcpyAsync(to, from, n * sizeof(double), cudaMemcpyDefault, stream.get()));
    }

    /// Both directions of cudaMemcpy between the two arrays, with one series each.
    /// @param warm seconds of warm-up
    /// @param gating Gating::open: `host` is pageable and staged by the CPU, whose clock counts and which
    /// writes the source
    All between(double* host, double* device, std::size_t n, const std::string& suffix, long repetitions,
                double warm, Gating gating = Gating::gated) {
        const bool by_host = gating == Gating::open;
        const auto fill_host = [&](int pattern) {
            if (by_host) return tenken::fill_on_host(host, n, pattern);
            fill_pinned(host, n, pattern);
        };
        All all;
        for (const Direction& direction : directions) {
            double* const to = direction.to_device ? device : host;
            double* const from = direction.to_device ? host : device;
            fill_host(direction.to_device ? 1 : 0);
            fill_device(device, n, direction.to_device ? 0 : 1);
            const auto copy = [&](const Stream& stream) { enqueue(to, from, n, stream); };
            tenken::cuda::warm_up(warm, stream_, copy);
            // Data of the warm-up must not be mistaken for that of the timed part.
            if (direction.to_device) {
                fill_host(2);
            } else {
                fill_device(device, n, 2);
            }
            Series series = start(direction.name + suffix);
            {
                const tenken::cuda::TimedPart timed(gpu_);
                const tenken::cuda::Times times = tenken::cuda::time_each(repetitions, stream_, copy, gating);
                series.metric.clock = by_host ? "host" : "device";
                series.metric.timed(by_host ? times.host : times.device, bytes_of(n));
            }
            series.checks.push_back(direction.to_device ? on_device(to, n, 2, series)
                                                        : on_host(to, n, 2, series));
            all.push_back(series);
        }
        return all;
    }

    All trials() {
        All all;
        for (long trial = 1; trial <= plan_.trials; ++trial) {
            PinnedArray<double> host(plan_.elements);
            DeviceArray<double> device(plan_.elements);
            for (Series& series : between(host.data(), device.data(), plan_.elements, "_pinned",
                                          plan_.repetitions, plan_.warmup_seconds / 2)) {
                if (plan_.trials > 1) series.metric.at = {{"trial", tenken::Json(trial)}};
                all.push_back(series);
            }
        }
        return all;
    }

    /// Host to device and device to host at the same time, on one stream each; the bytes of both count.
    Series both() {
        const std::size_t n = plan_.elements;
        PinnedArray<double> up(n);
        PinnedArray<double> down(n);
        DeviceArray<double> up_device(n);
        DeviceArray<double> down_device(n);
        fill_pinned(up.data(), n, 1);
        fill_pinned(down.data(), n, 0);
        fill_device(up_device.data(), n, 0);
        fill_device(down_device.data(), n, 3);
        const Stream other;
        tenken::cuda::Event go;
        tenken::cuda::Event done;
        const auto copy = [&](const Stream& stream) {
            go.record(stream);
            TENKEN_CUDA(cudaStreamWaitEvent(other.get(), go.get(), 0));
            enqueue(up_device.data(), up.data(), n, stream);
            enqueue(down.data(), down_device.data(), n, other);
            done.record(other);
            TENKEN_CUDA(cudaStreamWaitEvent(stream.get(), done.get(), 0));
        };
        tenken::cuda::warm_up(plan_.warmup_seconds / 4, stream_, copy);
        fill_pinned(up.data(), n, 2);
        fill_device(down_device.data(), n, 4);
        Series series = start("both_pinned");
        {
            const tenken::cuda::TimedPart timed(gpu_);
            series.metric.timed(tenken::cuda::time_each(plan_.repetitions, stream_, copy).device,
                                bytes_of(2 * n));
        }
        series.checks = {on_device(up_device.data(), n, 2, series), on_host(down.data(), n, 4, series)};
        for (tenken::Check& check : series.checks) check.of = catalogue::both_ways();
        series.checks[0].at = {{"side", tenken::Json("device")}};
        series.checks[1].at = {{"side", tenken::Json("host")}};
        return series;
    }

    /// Within device memory, where each byte is read and written there.
    Series within(bool kernel) {
        const std::size_t n = plan_.elements;
        DeviceArray<double> from(n);
        DeviceArray<double> to(n);
        fill_device(from.data(), n, 1);
        fill_device(to.data(), n, 0);
        const tenken::cuda::Launch launch =
            kernel ? best_launch(to.data(), from.data(), n) : tenken::cuda::Launch();
        const auto copy = [&](const Stream& stream) {
            if (kernel) return tenken::cuda::copy(to.data(), from.data(), n, launch, stream);
            enqueue(to.data(), from.data(), n, stream);
        };
        tenken::cuda::warm_up(plan_.warmup_seconds / 4, stream_, copy);
        fill_device(from.data(), n, 2);
        Series series = start(kernel ? "dtod_sm" : "dtod");
        {
            const tenken::cuda::TimedPart timed(gpu_);
            series.metric.timed(tenken::cuda::time_each(plan_.repetitions, stream_, copy).device,
                                bytes_of(2 * n));
        }
        series.checks.push_back(on_device(to.data(), n, 2, series));
        return series;
    }

    tenken::cuda::Launch best_launch(double* to, const double* from, std::size_t n) {
        return tenken::cuda::choose_copy_launch(to, from, n, gpu_.description().multiprocessors, stream_);
    }

    /// A kernel reads or writes pinned memory over the link.
    All by_kernel() {
        const std::size_t n = plan_.slow_elements();
        PinnedArray<double> host(n);
        DeviceArray<double> device(n);
        All all;
        for (const Direction& direction : directions) {
            double* const to = direction.to_device ? device.data() : host.data();
            double* const from = direction.to_device ? host.data() : device.data();
            fill_pinned(host.data(), n, direction.to_device ? 1 : 0);
            fill_device(device.data(), n, direction.to_device ? 0 : 1);
            const tenken::cuda::Launch launch = best_launch(to, from, n);
            // The trials have copied the first values.
            if (direction.to_device) {
                fill_pinned(host.data(), n, 2);
            } else {
                fill_device(device.data(), n, 2);
            }
            const auto copy = [&](const Stream& stream) { tenken::cuda::copy(to, from, n, launch, stream); };
            Series series = start(std::string(direction.name) + "_sm");
            {
                const tenken::cuda::TimedPart timed(gpu_);
                series.metric.timed(tenken::cuda::time_each(plan_.few(), stream_, copy).device, bytes_of(n));
            }
            series.checks.push_back(direction.to_device ? on_device(to, n, 2, series)
                                                        : on_host(to, n, 2, series));
            all.push_back(series);
        }
        return all;
    }

    /// Write-combined host memory, uncached and slow to read by the CPU: only for host to device. The CPU
    /// writes it, because that is its purpose.
    All write_combined() {
        const std::size_t n = plan_.slow_elements();
        double* host = nullptr;
        TENKEN_CUDA(
            cudaHostAlloc(reinterpret_cast<void**>(&host), n * sizeof(double), cudaHostAllocWriteCombined));
        const tenken::Buffer owner(host, [](double* array) { cudaFreeHost(array); });
        DeviceArray<double> device(n);
        tenken::fill_on_host(host, n, 2);
        fill_device(device.data(), n, 0);
        const auto copy = [&](const Stream& stream) { enqueue(device.data(), host, n, stream); };
        tenken::cuda::warm_up(0, stream_, copy);
        fill_device(device.data(), n, 0);
        Series series = start("htod_write_combined");
        {
            const tenken::cuda::TimedPart timed(gpu_);
            series.metric.timed(tenken::cuda::time_each(plan_.few(), stream_, copy).device, bytes_of(n));
        }
        series.checks.push_back(on_device(device.data(), n, 2, series));
        return {series};
    }

    All pageable() {
        const tenken::Buffer host = tenken::allocate_pageable(plan_.slow_elements());
        DeviceArray<double> device(plan_.slow_elements());
        return between(host.get(), device.data(), plan_.slow_elements(), "_pageable", plan_.few(), 0,
                       Gating::open);
    }

    /// Managed memory written by the other side: migrated page by page by the first touch of a kernel (or the
    /// CPU), or as a whole by a prefetch.
    All managed() {
        const tenken::DeviceDescription& device = gpu_.description();
        if (!device.managed_memory) {
            document_.path("left_out.managed", "cudaDevAttrManagedMemory is 0");
            return {};
        }
        const std::size_t n = plan_.slow_elements();
        ManagedArray<double> array(n);
        All all = {touched(array.data(), n)};
        if (!device.concurrent_managed_access) {
            document_.path("left_out.prefetch", "cudaDevAttrConcurrentManagedAccess is 0");
            return all;
        }
        for (const Direction& direction : directions) {
            Series series = start(std::string(direction.name) + "_prefetch");
            const tenken::MemorySpace to =
                direction.to_device ? tenken::MemorySpace::device : tenken::MemorySpace::host;
            const tenken::cuda::TimedPart timed(gpu_);
            std::vector<double> seconds;
            for (long i = 0; i < plan_.few(); ++i) {
                const int pattern = static_cast<int>(i % 4);
                if (direction.to_device) {
                    tenken::fill_on_host(array.data(), n, pattern);
                } else {
                    fill_device(array.data(), n, pattern);
                }
                const auto move = [&](const Stream& stream) {
                    tenken::cuda::prefetch(array.data(), array.bytes(), to, gpu_.index(), stream);
                };
                // By the host's clock: a migration to the host is done by the driver there.
                seconds.push_back(tenken::cuda::time_each(1, stream_, move, Gating::open).host.front());
            }
            series.metric.timed(seconds, bytes_of(n));
            series.metric.clock = "host";
            document_.path("last_prefetch." + series.metric.id(),
                           tenken::cuda::last_prefetch(array.data(), array.bytes()));
            const int pattern = static_cast<int>((plan_.few() - 1) % 4);
            series.checks.push_back(direction.to_device ? on_device(array.data(), n, pattern, series)
                                                        : on_host(array.data(), n, pattern, series));
            all.push_back(series);
        }
        return all;
    }

    /// Host to device: a kernel copies from managed pages that the CPU has just written.
    Series touched(double* array, std::size_t n) {
        DeviceArray<double> to(n);
        fill_device(to.data(), n, 0);
        const tenken::cuda::Launch launch;
        Series series = start("htod_managed");
        const tenken::cuda::TimedPart timed(gpu_);
        int pattern = 0;
        std::vector<double> seconds;
        for (long i = 0; i < plan_.few(); ++i) {
            pattern = static_cast<int>(i % 4) + 1;
            tenken::fill_on_host(array, n, pattern);
            const auto read = [&](const Stream& stream) {
                tenken::cuda::copy(to.data(), array, n, launch, stream);
            };
            seconds.push_back(tenken::cuda::time_each(1, stream_, read).device.front());
        }
        series.metric.timed(seconds, bytes_of(n));
        series.checks.push_back(on_device(to.data(), n, pattern, series));
        return series;
    }

    /// Pinned memory on each NUMA node that has CPUs, allocated by a thread bound there.
    All numa() {
        All all;
        const std::set<int> nodes = tenken::nodes_with_cpus();
        if (nodes.size() < 2) {
            document_.path("left_out.numa", "the host has one NUMA node");
            return all;
        }
        const tenken::Optional<int>& near = gpu_.description().numa_node;
        document_.path("numa_node_of_gpu" + std::to_string(gpu_.index()),
                       near ? std::to_string(*near) : "not reported");
        const std::vector<int> before = tenken::process_cpus();
        for (int node : nodes) {
            const auto cpus =
                tenken::read_text("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
            tenken::bind_this_thread(tenken::parse_cpu_list(cpus.value_or("")));
            const std::size_t n = plan_.slow_elements();
            PinnedArray<double> host(n);  // pinned on the node of the allocating thread
            tenken::bind_this_thread(before);
            if (tenken::numa_nodes_of(host.data(), host.bytes()) != std::set<int>{node}) {
                document_.path("left_out.numa" + std::to_string(node),
                               "the system did not place pages there");
                continue;
            }
            DeviceArray<double> device(n);
            for (Series& series : between(host.data(), device.data(), n, "_numa", plan_.few(), 0)) {
                series.metric.at = {{"node", tenken::Json(node)}};
                all.push_back(series);
            }
        }
        return all;
    }

    /// The time of copies so small that only their latency counts.
    All latency() {
        All all;
        for (std::size_t n : {std::size_t{1}, std::size_t{512}}) {
            PinnedArray<double> host(n);
            DeviceArray<double> device(n);
            for (Series& series : between(host.data(), device.data(), n, "_latency",
                                          std::max(plan_.repetitions, 100L), 0.05)) {
                series.metric.at = {{"bytes", size_of(n)}};
                all.push_back(series);
            }
        }
        return all;
    }

    All sweep() {
        All all;
        for (std::size_t n = 1024 / sizeof(double); n <= plan_.maximum; n *= 4) {
            PinnedArray<double> host(n);
            DeviceArray<double> device(n);
            for (Series& series : between(host.data(), device.data(), n, "_sweep", plan_.few(), 0)) {
                series.metric.at = {{"bytes", size_of(n)}};
                all.push_back(series);
            }
        }
        return all;
    }

    /// Bytes counted for a copy of `n` elements.
    static std::vector<std::pair<std::string, double>> bytes_of(std::size_t n) {
        return {{"bytes", static_cast<double>(n * sizeof(double))}};
    }

    static tenken::Json size_of(std::size_t n) {
        return tenken::Json(static_cast<std::uint64_t>(n * sizeof(double)));
    }

    tenken::cuda::Gpu& gpu_;
    const Plan& plan_;
    tenken::Document& document_;
    Stream stream_;
    bool spoilt_ = false;
};

class CudaTransfers : public GpuTransfers {
  public:
    void options(tenken::Arguments& arguments) override { gpus_.options(arguments, false); }
    void prepare(const tenken::Arguments& arguments) override { gpus_.prepare(arguments); }

    void require_fit(const tenken::Arguments& arguments, const Plan& plan) override {
        const std::uint64_t one = std::max(plan.elements, plan.maximum) * sizeof(double);
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) {
            const std::uint64_t left = gpu->description().memory_free_bytes;
            if (one <= left / 2 / 2) continue;
            throw arguments.error(plan.elements >= plan.maximum ? "bytes" : "sweep-max-bytes",
                                  "at most " + tenken::format_bytes(left / 4) + ": requested " +
                                      tenken::format_bytes(2 * one) + " for two arrays, free " +
                                      tenken::format_bytes(left) + " on gpu" + std::to_string(gpu->index()) +
                                      ", of which half is used");
        }
    }

    All measure(const std::string& name, const Plan& plan, tenken::Document& document) override {
        All all;
        gpus_.each([&](tenken::cuda::Gpu& gpu, tenken::DeviceWorker&) {
            OneGpu one(gpu, plan, document);
            for (Series& series : one.measure(name)) all.push_back(std::move(series));
        });
        return all;
    }

    void describe(tenken::Document& document) override { gpus_.report(document); }

  private:
    tenken::cuda::Gpus gpus_;
};

}  // namespace

std::unique_ptr<GpuTransfers> make_gpu_transfers() {
    return std::unique_ptr<GpuTransfers>(new CudaTransfers);
}

}  // namespace transfer
