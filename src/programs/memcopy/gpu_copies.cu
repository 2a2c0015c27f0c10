// The copies of memcopy that need a GPU: by a kernel and by cudaMemcpy; and pinned memory for host copies.
#include <cuda_runtime.h>

#include <mutex>

#include "catalogue/memcopy.h"
#include "lib/cuda/copy.h"
#include "lib/cuda/copy_values.cuh"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/verify.cuh"
#include "programs/memcopy/copies.h"

namespace memcopy {

namespace {

using tenken::cuda::CopyValues;

class CudaCopies : public GpuCopies {
  public:
    void options(tenken::Arguments& arguments) override { gpus_.options(arguments); }
    void prepare(const tenken::Arguments& arguments) override { gpus_.prepare(arguments); }

    void require_fit(const tenken::Arguments& arguments, const Plan& plan) override {
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) {
            const tenken::DeviceDescription& device = gpu->description();
            if (plan.bytes() < 4 * device.l2_bytes) {
                throw arguments.error("bytes", "at least " + tenken::format_bytes(4 * device.l2_bytes) +
                                                   ", 4 x the L2 of " +
                                                   tenken::format_bytes(device.l2_bytes));
            }
            const std::uint64_t maximum = device.memory_free_bytes / 10 * 9 / 2;
            if (plan.bytes() <= maximum) continue;
            throw arguments.error("bytes", "at most " + tenken::format_bytes(maximum) + " each: requested " +
                                               tenken::format_bytes(2 * plan.bytes()) +
                                               " for two arrays, free " +
                                               tenken::format_bytes(device.memory_free_bytes) + " on gpu" +
                                               std::to_string(device.index));
        }
    }

    std::vector<Series> measure(const std::string& name, const Plan& plan) override {
        std::vector<Series> all(gpus_.size());
        gpus_.each([&](tenken::cuda::Gpu& gpu, tenken::DeviceWorker& worker) {
            Series& series = all[static_cast<std::size_t>(worker.index())];
            series.name = name;
            series.subject = tenken::Subject::gpu(gpu.index());
            series.clock = "device";
            for (long trial = 0; trial < plan.trials; ++trial) run_trial(gpu, worker, plan, series);
        });
        return all;
    }

    Buffer pinned(std::size_t elements) override {
        const auto array = std::make_shared<tenken::cuda::PinnedArray<double>>(elements);
        return Buffer(array, array->data());
    }

    void describe(tenken::Document& document) override {
        gpus_.report(document);
        for (const auto& launch : launches_) document.path(launch.first, launch.second);
    }

  private:
    void run_trial(tenken::cuda::Gpu& gpu, tenken::DeviceWorker& worker, const Plan& plan, Series& series) {
        const std::size_t n = plan.elements;
        tenken::cuda::DeviceArray<double> to(n);
        tenken::cuda::DeviceArray<double> from(n);
        const tenken::cuda::Stream stream;
        tenken::cuda::fill(from.data(), n, CopyValues{1}, stream);
        tenken::cuda::fill(to.data(), n, CopyValues{0}, stream);

        const tenken::DeviceDescription& device = gpu.description();
        const bool by_kernel = series.name == "kernel";
        const bool known = tenken::cuda::launches_are_known(device.compute_capability);
        tenken::cuda::Launch best = tenken::cuda::copy_launch();
        if (by_kernel && !known) {
            best =
                tenken::cuda::choose_copy_launch(to.data(), from.data(), n, device.multiprocessors, stream);
        }
        const auto copy = [&](const tenken::cuda::Stream& on) {
            if (by_kernel) return tenken::cuda::copy(to.data(), from.data(), n, best, on);
            TENKEN_CUDA(
                cudaMemcpyAsync(to.data(), from.data(), to.bytes(), cudaMemcpyDeviceToDevice, on.get()));
        };
        worker.synchronize();
        tenken::cuda::warm_up(plan.warmup_seconds, stream, copy);
        tenken::cuda::fill(from.data(), n, CopyValues{2}, stream);
        stream.synchronize();
        worker.synchronize();
        tenken::cuda::Times times;
        {
            const tenken::cuda::TimedPart timed(gpu);
            times = tenken::cuda::time_each(plan.repetitions, stream, copy);
        }
        worker.synchronize();
        series.seconds.push_back(times.device);
        series.host_seconds.insert(series.host_seconds.end(), times.host.begin(), times.host.end());
        if (plan.fault == tenken::Fault::element) tenken::cuda::flip_bit(to.data(), n - 1);
        series.checks.push_back(tenken::cuda::compare(to.data(), n, CopyValues{2}, 0, stream)
                                    .check(catalogue::gpu_copy(), series.subject, series.at()));
        if (by_kernel)
            note_launch("launch.kernel." + series.subject.text(),
                        best.text() + (known ? " (known best)" : " (best of those tried)"));
    }

    void note_launch(const std::string& key, const std::string& text) {
        const std::lock_guard<std::mutex> lock(mutex_);
        launches_.emplace_back(key, text);
    }

    tenken::cuda::Gpus gpus_;
    std::mutex mutex_;
    std::vector<std::pair<std::string, std::string>> launches_;
};

}  // namespace

std::unique_ptr<GpuCopies> make_gpu_copies() {
    return std::unique_ptr<GpuCopies>(new CudaCopies);
}

}  // namespace memcopy
