// The implementation of base/copy_gpu.h by GPUs.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <set>

#include "lib/base/copy_gpu.h"
#include "lib/base/placement.h"
#include "lib/cuda/copy.h"
#include "lib/cuda/copy_values.cuh"
#include "lib/cuda/gpus.h"
#include "lib/cuda/managed.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/verify.cuh"

namespace tenken {
namespace cuda {

namespace {

template <typename Memory>
Buffer make(std::size_t elements) {
    const auto array = std::make_shared<Array<double, Memory>>(elements);
    return Buffer(array, array->data());
}

class CudaCopyGpu : public CopyGpu {
  public:
    explicit CudaCopyGpu(Gpu& gpu) : gpu_(gpu), stream_(gpu.index()) {}

    const DeviceDescription& description() const override { return gpu_.description(); }

    Buffer allocate(Method method, MemorySpace space, std::size_t elements) override {
        if (is_managed(method)) return make<ManagedMemory>(elements);
        if (method == Method::sam) return allocate_pageable(elements);
        return space == MemorySpace::host ? make<PinnedMemory>(elements) : make<DeviceMemory>(elements);
    }

    void advise(double* array, std::size_t elements, MemorySpace space) override {
        cuda::advise(array, elements * sizeof(double), space, gpu_.index());
    }

    void prefetch(double* array, std::size_t elements, MemorySpace space) override {
        cuda::prefetch(array, elements * sizeof(double), space, gpu_.index(), stream_);
        stream_.synchronize();
    }

    void fill(double* array, std::size_t elements, int pattern) override {
        cuda::fill(array, elements, CopyValues{pattern}, stream_);
        stream_.synchronize();
    }

    std::vector<double> copy(double* to, const double* from, std::size_t elements,
                             long repetitions) override {
        choose_launch(elements);
        return time_each(repetitions, stream_,
                         [&](const Stream& stream) { cuda::copy(to, from, elements, launch_, stream); })
            .device;
    }

    ErrorScan compare(const double* array, std::size_t elements, int pattern) override {
        return cuda::compare(array, elements, CopyValues{pattern}, 0, stream_);
    }

    void flip_bit(double* array, std::size_t index) override { cuda::flip_bit(array, index); }

    Residence residence(const double* array, std::size_t elements, Method method,
                        MemorySpace space) override {
        if (method == Method::explicit_memory) return Residence::all_on(space);
        if (is_managed(method) && !managed_pages_tell()) return {};
        return by_pages(array, elements);
    }

    void begin_timed() override { gpu_.health().start(); }
    void end_timed() override { gpu_.health().stop(); }

    /// The chosen launch configuration; empty before the first copy.
    std::string launch() const { return chosen_ ? launch_.text() : ""; }

  private:
    /// Determined by a short measurement on separate arrays, since those of a trial must not be touched
    /// before it.
    void choose_launch(std::size_t elements) {
        if (chosen_) return;
        const std::uint64_t minimum = 4 * gpu_.description().l2_bytes / sizeof(double);
        const std::size_t some = std::min<std::size_t>(elements, std::max<std::uint64_t>(minimum, 1 << 25));
        DeviceArray<double> to(some);
        DeviceArray<double> from(some);
        fill(from.data(), some, 1);
        fill(to.data(), some, 0);
        launch_ =
            choose_copy_launch(to.data(), from.data(), some, gpu_.description().multiprocessors, stream_);
        chosen_ = true;
    }

    static Residence by_pages(const double* array, std::size_t elements) {
        static const std::set<int> of_cpus = nodes_with_cpus();
        return Residence::of_pages(nodes_of_pages(array, elements * sizeof(double)), of_cpus);
    }

    /// Whether the system finds managed pages while they are on the host, and does not while they are on the
    /// GPU. Tested on a small array, because neither CUDA nor the kernel guarantees it.
    bool managed_pages_tell() {
        if (tell_ == Tell::not_tried) {
            constexpr std::size_t some = std::size_t{1} << 20;
            const Buffer array = make<ManagedMemory>(some);
            fill_on_host(array.get(), some, 1);
            const Residence touched_by_host = by_pages(array.get(), some);
            fill(array.get(), some, 2);
            const Residence touched_by_gpu = by_pages(array.get(), some);
            const bool tells =
                touched_by_host.known && touched_by_host.on_host > 0.99 && touched_by_gpu.on_device > 0.99;
            tell_ = tells ? Tell::yes : Tell::no;
        }
        return tell_ == Tell::yes;
    }

    enum class Tell { not_tried, yes, no };

    Gpu& gpu_;
    Stream stream_;
    Launch launch_;
    bool chosen_ = false;
    Tell tell_ = Tell::not_tried;
};

class CudaCopyGpus : public CopyGpus {
  public:
    void options(Arguments& arguments) override { gpus_.options(arguments, false); }

    void prepare(const Arguments& arguments) override {
        gpus_.prepare(arguments);
        for (const std::unique_ptr<Gpu>& gpu : gpus_.list()) list_.emplace_back(new CudaCopyGpu(*gpu));
        gpus_.list().front()->use();
    }

    std::vector<DeviceDescription> descriptions() const override {
        std::vector<DeviceDescription> all;
        for (const std::unique_ptr<CudaCopyGpu>& gpu : list_) all.push_back(gpu->description());
        return all;
    }

    void each(const std::function<void(CopyGpu&)>& work) override {
        gpus_.each(
            [&](Gpu&, DeviceWorker& worker) { work(*list_[static_cast<std::size_t>(worker.index())]); });
    }

    void report(Document& document) override {
        gpus_.report(document);
        for (const std::unique_ptr<CudaCopyGpu>& gpu : list_) {
            if (gpu->launch().empty()) continue;
            document.path("launch.copy.gpu" + std::to_string(gpu->description().index), gpu->launch());
        }
    }

  private:
    Gpus gpus_;
    std::vector<std::unique_ptr<CudaCopyGpu>> list_;
};

}  // namespace

}  // namespace cuda

std::unique_ptr<CopyGpus> make_copy_gpus() {
    return std::unique_ptr<CopyGpus>(new cuda::CudaCopyGpus);
}

}  // namespace tenken
