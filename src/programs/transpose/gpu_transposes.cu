// Transposes on GPUs, with the matrices in device, pinned, mapped, managed or malloc memory.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>

#include "lib/base/clock.h"
#include "lib/base/copy_values.h"
#include "lib/cuda/copy.h"
#include "lib/cuda/floats.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/verify.cuh"
#include "programs/transpose/kernels.cuh"
#include "programs/transpose/transposes.h"

namespace transpose {

namespace {

using tenken::cuda::Floats;
using tenken::cuda::pageable_floats;

/// Pinned host memory that the GPU reads and writes in place.
Floats mapped(std::size_t elements) {
    float* memory = nullptr;
    TENKEN_CUDA(
        cudaHostAlloc(reinterpret_cast<void**>(&memory), elements * sizeof(float), cudaHostAllocMapped));
    return Floats(memory, [](float* array) { cudaFreeHost(array); });
}

unsigned parts(int whole, int part) {
    return static_cast<unsigned>((whole + part - 1) / part);
}

// The fastest of those tried on an H200 (values in docs/measured.md).
constexpr int wide_tile = 64;
constexpr int wide_threads = 256;
constexpr int wide_floats = 4;

void launch(const std::string& kernel, float* to, const float* from, const Shape& shape,
            const tenken::cuda::Stream& stream) {
    constexpr int side = 32;
    constexpr int lines = 8;
    const dim3 threads(side, lines);
    const dim3 tiles(parts(shape.columns, side), parts(shape.rows, side));
    if (kernel == "naive") {
        const dim3 blocks(parts(shape.columns, side), parts(shape.rows, lines));
        naive_kernel<<<blocks, threads, 0, stream.get()>>>(to, from, shape.rows, shape.columns);
    } else if (kernel == "tile") {
        tile_kernel<side, lines, 0><<<tiles, threads, 0, stream.get()>>>(to, from, shape.rows, shape.columns);
    } else if (shape.rows % wide_floats == 0 && shape.columns % wide_floats == 0) {
        const dim3 blocks(parts(shape.columns, wide_tile), parts(shape.rows, wide_tile));
        wide_kernel<wide_tile, wide_threads, wide_floats>
            <<<blocks, wide_threads, 0, stream.get()>>>(to, from, shape.rows, shape.columns);
    } else {
        tile_kernel<side, lines, 1><<<tiles, threads, 0, stream.get()>>>(to, from, shape.rows, shape.columns);
    }
    TENKEN_CUDA(cudaGetLastError());
}

__global__ void write_on_device(float* matrix, std::size_t elements, int run) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < elements;
         i += step) {
        matrix[i] = value_at(i, run);
    }
}

__global__ void compare_on_device(const float* transposed, std::size_t rows, std::size_t columns, int run,
                                  tenken::cuda::Found* found) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < rows * columns;
         i += step) {
        const std::size_t from = i % rows * columns + i / rows;
        if (!(transposed[i] == value_at(from, run))) {
            atomicMin(&found->first_wrong, static_cast<unsigned long long>(i));
        }
    }
}

/// As compare_transposed(), for a matrix in device memory.
tenken::ErrorScan compare_there(const float* transposed, const Shape& shape, int run,
                                const tenken::cuda::Stream& stream) {
    tenken::cuda::DeviceArray<tenken::cuda::Found> found(1);
    tenken::cuda::Found result = {0, ~0ULL};
    TENKEN_CUDA(cudaMemcpyAsync(found.data(), &result, sizeof result, cudaMemcpyHostToDevice, stream.get()));
    compare_on_device<<<tenken::cuda::verify_blocks(shape.elements()), tenken::cuda::verify_threads, 0,
                        stream.get()>>>(transposed, static_cast<std::size_t>(shape.rows),
                                        static_cast<std::size_t>(shape.columns), run, found.data());
    TENKEN_CUDA(cudaGetLastError());
    TENKEN_CUDA(cudaMemcpyAsync(&result, found.data(), sizeof result, cudaMemcpyDeviceToHost, stream.get()));
    stream.synchronize();
    tenken::ErrorScan scan(0);
    if (result.first_wrong != ~0ULL) {
        const auto at = static_cast<std::size_t>(result.first_wrong);
        const auto rows = static_cast<std::size_t>(shape.rows);
        float value = 0;
        TENKEN_CUDA(cudaMemcpy(&value, transposed + at, sizeof value, cudaMemcpyDeviceToHost));
        const std::size_t from = at % rows * static_cast<std::size_t>(shape.columns) + at / rows;
        scan.compare(at, static_cast<double>(value), static_cast<double>(value_at(from, run)));
    }
    return scan;
}

/// One task on the current GPU.
class OneTask {
  public:
    explicit OneTask(const Task& task) : task_(task), elements_(task.shape.elements()) {
        copied_ = task.memory == "pageable" || task.memory == "pinned";
        for (Floats* matrix : {&host_in_, &host_out_}) {
            *matrix =
                task.memory == "pinned" ? tenken::cuda::make_floats<tenken::cuda::PinnedMemory>(elements_)
                : task.memory == "zero_copy" ? mapped(elements_)
                : task.memory == "managed" ? tenken::cuda::make_floats<tenken::cuda::ManagedMemory>(elements_)
                                           : pageable_floats(elements_);
        }
        in_ =
            copied_ ? tenken::cuda::make_floats<tenken::cuda::DeviceMemory>(elements_) : on_device(host_in_);
        out_ =
            copied_ ? tenken::cuda::make_floats<tenken::cuda::DeviceMemory>(elements_) : on_device(host_out_);
        if (task.copy_out) copy_ = pageable_floats(elements_);
    }

    Phases run() {
        Phases phases;
        tenken::ErrorScan errors(0);
        once(0, phases, errors);  // loads the kernel, touches all pages
        phases = Phases();
        for (long i = 1; i <= task_.repetitions; ++i) once(static_cast<int>(i), phases, errors);
        phases.compared = errors;
        return phases;
    }

  private:
    /// The device address of host memory that the GPU accesses directly.
    Floats on_device(const Floats& host) const {
        if (task_.memory != "zero_copy") return host;
        float* there = nullptr;
        TENKEN_CUDA(cudaHostGetDevicePointer(reinterpret_cast<void**>(&there), host.get(), 0));
        return Floats(host, there);
    }

    template <typename Work>
    static double timed(Work&& work) {
        const double begin = tenken::now_seconds();
        work();
        return tenken::now_seconds() - begin;
    }

    void once(int number, Phases& phases, tenken::ErrorScan& errors) {
        const std::size_t bytes = elements_ * sizeof(float);
        if (task_.published_init && copied_) {
            write_matrix(host_in_.get(), task_.shape, number);
            phases.init.push_back(timed([&] {
                TENKEN_CUDA(cudaMemsetAsync(in_.get(), 0, bytes, stream_.get()));
                TENKEN_CUDA(cudaMemsetAsync(out_.get(), 0, bytes, stream_.get()));
                stream_.synchronize();
            }));
        } else {
            phases.init.push_back(timed([&] { write_matrix(host_in_.get(), task_.shape, number); }));
        }
        // A value of an earlier repetition must not be mistaken for a current one, so the values differ too.
        if (copied_) {
            TENKEN_CUDA(cudaMemsetAsync(out_.get(), 0xff, bytes, stream_.get()));
            stream_.synchronize();
            phases.htod.push_back(timed([&] {
                TENKEN_CUDA(
                    cudaMemcpyAsync(in_.get(), host_in_.get(), bytes, cudaMemcpyHostToDevice, stream_.get()));
                stream_.synchronize();
            }));
        }
        const auto kernel = [&](const tenken::cuda::Stream& stream) {
            launch(task_.kernel, out_.get(), in_.get(), task_.shape, stream);
        };
        phases.kernel.push_back(tenken::cuda::time_each(1, stream_, kernel).device.front());
        if (copied_) {
            phases.dtoh.push_back(timed([&] {
                TENKEN_CUDA(cudaMemcpyAsync(host_out_.get(), out_.get(), bytes, cudaMemcpyDeviceToHost,
                                            stream_.get()));
                stream_.synchronize();
            }));
        }
        float* result = host_out_.get();
        if (task_.copy_out && task_.memory != "pageable" && task_.memory != "managed") {
            phases.copy_out.push_back(timed([&] { std::copy(result, result + elements_, copy_.get()); }));
            result = copy_.get();
        }
        if (task_.fault == tenken::Fault::element && number == 1) result[elements_ - 1] += 1;
        phases.check.push_back(timed([&] { errors.merge(compare_transposed(result, task_.shape, number)); }));
    }

    const Task& task_;
    std::size_t elements_;
    bool copied_ = false;
    tenken::cuda::Stream stream_;
    Floats host_in_, host_out_, in_, out_, copy_;
};

class CudaTransposes : public GpuTransposes {
  public:
    void options(tenken::Arguments& arguments) override { gpus_.options(arguments, false); }
    void prepare(const tenken::Arguments& arguments) override { gpus_.prepare(arguments); }

    std::vector<tenken::DeviceDescription> descriptions() const override {
        std::vector<tenken::DeviceDescription> all;
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) all.push_back(gpu->description());
        return all;
    }

    Phases run(std::size_t which, const Task& task) override {
        tenken::cuda::Gpu& gpu = *gpus_.list()[which];
        gpu.use();
        OneTask one(task);
        const tenken::cuda::TimedPart timed(gpu);
        return one.run();
    }

    void measure_bandwidth(std::size_t which, const Shape& shape, long repetitions, double warmup_seconds,
                           tenken::Document& document) override {
        tenken::cuda::Gpu& gpu = *gpus_.list()[which];
        gpu.use();
        const tenken::cuda::Stream stream;
        const std::size_t doubles = shape.elements() / 2;
        const Floats from = tenken::cuda::make_floats<tenken::cuda::DeviceMemory>(shape.elements());
        const Floats to = tenken::cuda::make_floats<tenken::cuda::DeviceMemory>(shape.elements());
        const std::vector<std::pair<std::string, double>> moved = {
            {"bytes", 2.0 * static_cast<double>(shape.bytes())}};
        write_on_device<<<tenken::cuda::verify_blocks(shape.elements()), tenken::cuda::verify_threads, 0,
                          stream.get()>>>(from.get(), shape.elements(), 0);
        TENKEN_CUDA(cudaGetLastError());

        tenken::Metric metric;
        metric.subject = tenken::Subject::gpu(gpu.index());
        metric.clock = "device";
        metric.at = {{"n", shape.coordinate()}};
        if (doubles > 0) {
            double* const to_pairs = reinterpret_cast<double*>(to.get());
            const double* const from_pairs = reinterpret_cast<const double*>(from.get());
            const tenken::cuda::Launch best = tenken::cuda::choose_copy_launch(
                to_pairs, from_pairs, doubles, gpu.description().multiprocessors, stream);
            const auto copy = [&](const tenken::cuda::Stream& on) {
                tenken::cuda::copy(to_pairs, from_pairs, doubles, best, on);
            };
            tenken::cuda::warm_up(warmup_seconds, stream, copy);
            metric.name = "device_copy";
            metric.timed(seconds(gpu, repetitions, stream, copy), moved);
            document.add(metric);
        }
        int run = 1;
        for (const char* kernel : {"naive", "tile", "padded"}) {
            const auto work = [&](const tenken::cuda::Stream& on) {
                launch(kernel, to.get(), from.get(), shape, on);
            };
            tenken::cuda::warm_up(0, stream, work);
            // Data of the warm-up must not be mistaken for that of the timed part.
            TENKEN_CUDA(cudaMemsetAsync(to.get(), 0xff, shape.bytes(), stream.get()));
            write_on_device<<<tenken::cuda::verify_blocks(shape.elements()), tenken::cuda::verify_threads, 0,
                              stream.get()>>>(from.get(), shape.elements(), ++run);
            TENKEN_CUDA(cudaGetLastError());
            metric.name = std::string(kernel) + "_bandwidth";
            metric.timed(seconds(gpu, repetitions, stream, work), moved);
            document.add(metric);
            tenken::At at = metric.at;
            at.emplace_back("metric", tenken::Json(metric.name));
            document.add(compare_there(to.get(), shape, run, stream)
                             .check(catalogue::bandwidth(), metric.subject, at));
        }
    }

    void describe(tenken::Document& document) override {
        gpus_.report(document);
        document.path("padded_kernel", "tiles of " + std::to_string(wide_tile) + ", " +
                                           std::to_string(wide_threads) + " threads, accesses of " +
                                           std::to_string(wide_floats) +
                                           " floats where the sides are multiples of it");
    }

  private:
    template <typename Work>
    static std::vector<double> seconds(tenken::cuda::Gpu& gpu, long repetitions,
                                       const tenken::cuda::Stream& stream, Work&& work) {
        const tenken::cuda::TimedPart timed(gpu);
        return tenken::cuda::time_each(repetitions, stream, work).device;
    }

    tenken::cuda::Gpus gpus_;
};

}  // namespace

std::unique_ptr<GpuTransposes> make_gpu_transposes() {
    return std::unique_ptr<GpuTransposes>(new CudaTransposes);
}

}  // namespace transpose
