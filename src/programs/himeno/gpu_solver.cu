// Himeno on GPUs, with gosa of every iteration, in device, managed or malloc memory.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/copy_values.h"
#include "lib/cuda/devices.h"
#include "lib/cuda/dot.h"
#include "lib/cuda/floats.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/verify.cuh"
#include "programs/himeno/kernels.cuh"
#include "programs/himeno/solver.h"

namespace himeno {

namespace {

// The fastest of those tried on an H200 (values in docs/measured.md).
constexpr int march = 4;
constexpr int block_x = 64;
constexpr int block_y = 4;

__global__ void fill_array(float* array, int name, Data data, Grid grid) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t cell = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
         cell < grid.cells(); cell += step) {
        array[cell] = value_at(name, data, grid, cell);
    }
}

void fill_on_host(float* array, int name, Data data, const Grid& grid) {
    const auto cells = static_cast<long>(grid.cells());
#pragma omp parallel for schedule(static)
    for (long cell = 0; cell < cells; ++cell) {
        array[cell] = value_at(name, data, grid, static_cast<std::size_t>(cell));
    }
}

using tenken::cuda::Floats;
using tenken::cuda::pageable_floats;

/// The array with this index (the last two are the pressures) by its name in the formulas.
int name_of(std::size_t number) {
    return number < static_cast<std::size_t>(p) ? static_cast<int>(number) : static_cast<int>(p);
}

class GpuSolver : public Solver {
  public:
    GpuSolver(tenken::cuda::Gpu& gpu, std::string memory, bool from_host, const Grid& grid)
        : gpu_(gpu),
          memory_(std::move(memory)),
          from_host_(from_host),
          grid_(grid),
          blocks_(static_cast<unsigned>((grid.nk / 4 + block_x - 1) / block_x),
                  static_cast<unsigned>((grid.nj - 2 + block_y - 1) / block_y),
                  static_cast<unsigned>((grid.ni - 2 + march - 1) / march)),
          partial_(static_cast<std::size_t>(blocks_.x) * blocks_.y * blocks_.z) {
        for (Floats& array : arrays_) {
            array =
                memory_ == "explicit"  ? tenken::cuda::make_floats<tenken::cuda::DeviceMemory>(grid.cells())
                : memory_ == "managed" ? tenken::cuda::make_floats<tenken::cuda::ManagedMemory>(grid.cells())
                                       : pageable_floats(grid.cells());
        }
    }

    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu_.index()); }
    const char* clock() const override { return "device"; }

    double fill(Data data) override {
        if (memory_ == "explicit" && !from_host_) {
            refill(data);
            return 0;
        }
        if (memory_ != "explicit") {
            for (std::size_t n = 0; n < arrays_.size(); ++n) {
                fill_on_host(arrays_[n].get(), name_of(n), data, grid_);
            }
            return 0;
        }
        double seconds = 0;
        const Floats staging = pageable_floats(grid_.cells());
        for (std::size_t n = 0; n < arrays_.size(); ++n) {
            fill_on_host(staging.get(), name_of(n), data, grid_);
            const double begin = tenken::now_seconds();
            TENKEN_CUDA(
                cudaMemcpy(arrays_[n].get(), staging.get(), grid_.bytes_of_one(), cudaMemcpyHostToDevice));
            seconds += tenken::now_seconds() - begin;
        }
        return seconds;
    }

    void refill(Data data) override {
        for (std::size_t n = 0; n < arrays_.size(); ++n) {
            fill_array<<<tenken::cuda::verify_blocks(grid_.cells()), tenken::cuda::verify_threads, 0,
                         stream_.get()>>>(arrays_[n].get(), name_of(n), data, grid_);
            TENKEN_CUDA(cudaGetLastError());
        }
        stream_.synchronize();
    }

    Timing iterate(long iterations, long samples) override {
        Timing timing;
        timing.stride = (iterations + samples - 1) / samples;
        tenken::cuda::DeviceArray<double> gosa(static_cast<std::size_t>(iterations));
        std::vector<tenken::cuda::Event> events(static_cast<std::size_t>(iterations / timing.stride + 1));
        stream_.synchronize();
        const double begin = tenken::now_seconds();
        events[0].record(stream_);
        for (long i = 1; i <= iterations; ++i) {
            step(gosa.data() + (i - 1));
            if (i % timing.stride == 0) events[static_cast<std::size_t>(i / timing.stride)].record(stream_);
        }
        stream_.synchronize();
        timing.total_seconds = tenken::now_seconds() - begin;
        for (std::size_t i = 1; i < events.size(); ++i) {
            timing.seconds.push_back(events[i].seconds_since(events[i - 1]));
        }
        timing.gosa.resize(static_cast<std::size_t>(iterations));
        TENKEN_CUDA(cudaMemcpy(timing.gosa.data(), gosa.data(), gosa.bytes(), cudaMemcpyDeviceToHost));
        return timing;
    }

    double fetch(float* pressure) override {
        const double begin = tenken::now_seconds();
        TENKEN_CUDA(cudaMemcpy(pressure, arrays_[p].get(), grid_.bytes_of_one(), cudaMemcpyDefault));
        return tenken::now_seconds() - begin;
    }

    void begin_timed() override { gpu_.health().start(); }
    void end_timed() override { gpu_.health().stop(); }

  private:
    void step(double* gosa) {
        Coefficients c;
        for (std::size_t n = 0; n < static_cast<std::size_t>(coefficients); ++n) c.of[n] = arrays_[n].get();
        const dim3 threads(block_x, block_y);
        jacobi<march, block_x, block_y><<<blocks_, threads, 0, stream_.get()>>>(
            grid_, c, arrays_[p].get(), arrays_[p + 1].get(), partial_.data());
        TENKEN_CUDA(cudaGetLastError());
        add_up<<<1, 1024, 0, stream_.get()>>>(partial_.data(), partial_.size(), gosa);
        TENKEN_CUDA(cudaGetLastError());
        std::swap(arrays_[p], arrays_[p + 1]);
    }

    tenken::cuda::Gpu& gpu_;
    std::string memory_;
    bool from_host_;
    Grid grid_;
    dim3 blocks_;
    tenken::cuda::Stream stream_;
    tenken::cuda::DeviceArray<float> partial_;
    std::array<Floats, arrays> arrays_;
};

class CudaSolvers : public GpuSolvers {
  public:
    void options(tenken::Arguments& arguments) override { gpus_.options(arguments, false); }
    void prepare(const tenken::Arguments& arguments) override { gpus_.prepare(arguments); }

    std::vector<tenken::DeviceDescription> descriptions() const override {
        std::vector<tenken::DeviceDescription> all;
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) all.push_back(gpu->description());
        return all;
    }

    std::vector<tenken::Metric> measure_dot(double warmup_seconds) override {
        std::vector<tenken::Metric> all;
        gpus_.each([&](tenken::cuda::Gpu& gpu, tenken::DeviceWorker&) {
            all.push_back(dot_of(gpu, warmup_seconds));
        });
        return all;
    }

    std::unique_ptr<Solver> make(std::size_t which, const std::string& memory, bool from_host,
                                 const Grid& grid) override {
        tenken::cuda::Gpu& gpu = *gpus_.list()[which];
        gpu.use();
        return std::unique_ptr<Solver>(new GpuSolver(gpu, memory, from_host, grid));
    }

    void describe(tenken::Document& document) override {
        gpus_.report(document);
        document.path("kernel", "march " + std::to_string(march) + " planes, blocks of " +
                                    std::to_string(block_x) + " x " + std::to_string(block_y) +
                                    " threads, 4 cells a thread");
    }

  private:
    /// An iteration mostly reads: 13 of 14 arrays.
    tenken::Metric dot_of(tenken::cuda::Gpu& gpu, double warmup_seconds) {
        const tenken::cuda::Stream stream;
        const std::size_t n =
            std::max<std::size_t>(std::size_t{1} << 27, 20 * gpu.description().l2_bytes / 16);
        tenken::cuda::require_free_memory(2 * n * sizeof(double), "two arrays of the dot product");
        tenken::cuda::DeviceArray<double> a(n);
        tenken::cuda::DeviceArray<double> b(n);
        TENKEN_CUDA(cudaMemsetAsync(a.data(), 0x3f, a.bytes(), stream.get()));
        TENKEN_CUDA(cudaMemsetAsync(b.data(), 0x3e, b.bytes(), stream.get()));
        tenken::Metric metric;
        metric.name = "dot";
        metric.subject = tenken::Subject::gpu(gpu.index());
        metric.clock = "device";
        metric.timed(tenken::cuda::time_dot(a, b, gpu, stream, 100, warmup_seconds),
                     {{"bytes", 2.0 * static_cast<double>(a.bytes())}});
        return metric;
    }

    tenken::cuda::Gpus gpus_;
};

}  // namespace

std::unique_ptr<GpuSolvers> make_gpu_solvers() {
    return std::unique_ptr<GpuSolvers>(new CudaSolvers);
}

}  // namespace himeno
