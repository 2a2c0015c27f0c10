#include <cuda_runtime.h>

#include <limits>

#include "common/cuda/memory.h"
#include "common/cuda/peer.h"
#include "common/cuda/verify.cuh"
#include "stencil/gpu_part.h"
#include "stencil/kernels.cuh"

namespace stencil {

namespace {

using tenken::cuda::CurrentGpu;
using tenken::cuda::Event;
using tenken::cuda::Stream;

/// Kernels may read up to so many bytes before and behind the planes, which they do not use.
constexpr std::size_t back_bytes = 4096;

// The fastest of those tried on an H200 (docs/stencil.md has the figures).
constexpr int rows = 2;
constexpr int warps_x = 2;
constexpr int warps_y = 4;
constexpr int chunk = 64;

template <typename T>
__global__ void fill_slab(T* first, T* second, Layout layout, long planes) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    const std::size_t all = layout.plane() * static_cast<std::size_t>(planes);
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < all; i += step) {
        const auto plane = static_cast<long>(i / layout.plane());
        const std::size_t in_plane = i % layout.plane();
        const auto y = static_cast<long>(in_plane / static_cast<std::size_t>(layout.pitch));
        const auto x = static_cast<long>(in_plane % static_cast<std::size_t>(layout.pitch));
        const long z = plane - layout.halo + layout.slab.first;
        const bool own = z >= layout.slab.first && z < layout.slab.first + layout.slab.planes;
        const bool fixed = x == 0 || x == layout.grid.nx - 1 || y == 0 || y == layout.grid.ny - 1;
        const bool known = x < layout.grid.nx && (own || fixed);
        first[i] = second[i] = known ? static_cast<T>(value_at(x, y, z)) : static_cast<T>(nan(""));
    }
}

struct Wrong {
    unsigned long long count;
    unsigned long long first;
};

/// Every cell of some planes straight from the formula, against what the step made of it.
template <typename T, int points>
__global__ void compare_kernel(const T* __restrict__ from, const T* __restrict__ to, View g, Coefficients<T> c,
                               int begin, Wrong* wrong) {
    const int x = 1 + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const int y = 1 + static_cast<int>(blockIdx.y);
    const int z = begin + static_cast<int>(blockIdx.z);
    if (x >= g.nx - 1) return;
    const std::size_t cell = static_cast<std::size_t>(z) * g.plane +
                             static_cast<std::size_t>(y) * static_cast<std::size_t>(g.pitch) +
                             static_cast<std::size_t>(x);
    const T* const here = from + cell;
    const auto pitch = static_cast<std::ptrdiff_t>(g.pitch);
    const auto plane = static_cast<std::ptrdiff_t>(g.plane);
    const T expected =
        stepped<points>(c, [&](int dz, int dy, int dx) { return here[dz * plane + dy * pitch + dx]; });
    if (to[cell] == expected) return;  // never true of what is no number
    atomicAdd(&wrong->count, 1ULL);
    atomicMin(&wrong->first, static_cast<unsigned long long>(cell));
}

template <typename T>
class GpuSlab : public GpuPart {
  public:
    GpuSlab(tenken::cuda::Gpu& gpu, const Layout& layout, const Problem& problem, int number, std::size_t capacity,
            const Memory& memory)
        : GpuPart(layout, number), gpu_(gpu), problem_(problem), coefficients_(coefficients<T>(problem.points)) {
        const CurrentGpu current(gpu_.index());
        const std::size_t bytes = front_bytes + capacity * sizeof(T) + back_bytes;
        for (std::shared_ptr<void>& array : arrays_) array = memory ? memory(bytes) : on_gpu(bytes);
        boundary_.reset(new Stream(Stream::Priority::high));
        interior_.reset(new Stream);
        ordered_.reset(new Event);
        view_ = {layout.grid.nx, layout.grid.ny, layout.pitch, layout.plane()};
    }

    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu_.index()); }
    tenken::cuda::Gpu& gpu() override { return gpu_; }
    Stream& stream(Queue queue) override { return queue == Queue::boundary ? *boundary_ : *interior_; }
    void* allocation(int array) override { return arrays_[array].get(); }
    void* plane(int array, long z) override {
        return cells(array) + static_cast<std::size_t>(layout().local(z)) * layout().plane();
    }
    std::size_t plane_bytes() const override { return layout().plane() * sizeof(T); }

    void fill() override {
        const CurrentGpu current(gpu_.index());
        for (const std::shared_ptr<void>& array : arrays_) {
            TENKEN_CUDA(cudaMemsetAsync(array.get(), 0, front_bytes, boundary_->get()));
        }
        fill_slab<<<4096, 256, 0, boundary_->get()>>>(cells(0), cells(1), layout(), layout().planes());
        TENKEN_CUDA(cudaGetLastError());
        boundary_->synchronize();
    }

    void step(Queue queue, int from, const Range& one, const Range& other, int) override {
        if (one.planes() + other.planes() == 0) return;
        const CurrentGpu current(gpu_.index());
        if (problem_.points == 27) {
            launch<27>(stream(queue), from, one, other);
        } else {
            launch<7>(stream(queue), from, one, other);
        }
        TENKEN_CUDA(cudaGetLastError());
    }

    void order(Queue later, Queue earlier) override {
        const CurrentGpu current(gpu_.index());
        ordered_->record(stream(earlier));
        TENKEN_CUDA(cudaStreamWaitEvent(stream(later).get(), ordered_->get(), 0));
    }
    void wait(Queue queue) override { stream(queue).synchronize(); }

    void begin_marks(long most) override {
        const CurrentGpu current(gpu_.index());
        while (static_cast<long>(marks_.size()) < most + 1) marks_.emplace_back();
        used_ = 0;
        mark();
    }
    void mark() override {
        const CurrentGpu current(gpu_.index());
        marks_[used_++].record(*interior_);
    }
    std::vector<double> between_marks() override {
        const CurrentGpu current(gpu_.index());
        interior_->synchronize();
        std::vector<double> seconds;
        for (std::size_t i = 1; i < used_; ++i) seconds.push_back(marks_[i].seconds_since(marks_[i - 1]));
        return seconds;
    }

    tenken::ErrorScan compare_step(int from) override {
        const CurrentGpu current(gpu_.index());
        const Slab slab = layout().slab;
        const long begin = slab.first == 0 ? 1 : slab.first;
        const long end = slab.end() == layout().grid.nz ? slab.end() - 1 : slab.end();
        tenken::cuda::DeviceArray<Wrong> wrong(1);
        Wrong found = {0, ~0ULL};
        TENKEN_CUDA(cudaMemcpyAsync(wrong.data(), &found, sizeof found, cudaMemcpyHostToDevice, interior_->get()));
        for (long z = begin; z < end; z += most_blocks) {
            const long planes = end - z < most_blocks ? end - z : most_blocks;
            const dim3 blocks(static_cast<unsigned>((layout().grid.nx - 2 + 127) / 128),
                              static_cast<unsigned>(layout().grid.ny - 2), static_cast<unsigned>(planes));
            const auto first = static_cast<int>(layout().local(z));
            if (problem_.points == 27) {
                compare_kernel<T, 27><<<blocks, 128, 0, interior_->get()>>>(cells(from), cells(1 - from), view_,
                                                                           coefficients_, first, wrong.data());
            } else {
                compare_kernel<T, 7><<<blocks, 128, 0, interior_->get()>>>(cells(from), cells(1 - from), view_,
                                                                          coefficients_, first, wrong.data());
            }
            TENKEN_CUDA(cudaGetLastError());
        }
        TENKEN_CUDA(cudaMemcpyAsync(&found, wrong.data(), sizeof found, cudaMemcpyDeviceToHost, interior_->get()));
        interior_->synchronize();
        tenken::ErrorScan errors(0);
        if (found.count > 0) {
            T value = 0;
            const auto first = static_cast<std::size_t>(found.first);
            TENKEN_CUDA(cudaMemcpy(&value, cells(1 - from) + first, sizeof value, cudaMemcpyDefault));
            // The kernel says that it is wrong; by how much does not matter.
            errors.compare(first, static_cast<double>(value), std::numeric_limits<double>::infinity());
        }
        return errors;
    }

    void read(int array, const Range& planes, void* to) override { copy_plane_rows(array, planes, to, nullptr); }
    void write(int array, long z, const void* from) override {
        copy_plane_rows(array, {z, z + 1}, nullptr, from);
    }

  private:
    static constexpr long most_blocks = 60000;  // of a grid's third dimension

    static std::shared_ptr<void> on_gpu(std::size_t bytes) {
        return std::shared_ptr<void>(tenken::cuda::DeviceMemory::allocate(bytes), tenken::cuda::DeviceMemory::free);
    }

    T* cells(int array) {
        return reinterpret_cast<T*>(static_cast<unsigned char*>(arrays_[array].get()) + front_bytes);
    }

    Planes local(const Range& range) const {
        if (range.planes() == 0) return {0, 0};
        return {static_cast<int>(layout().local(range.begin)), static_cast<int>(layout().local(range.end))};
    }

    template <int points>
    void launch(Stream& stream, int from, const Range& one, const Range& other) {
        constexpr int n = Pack<T>::cells;
        const auto blocks_of = [](int cells, int each) { return static_cast<unsigned>((cells + each - 1) / each); };
        const unsigned x = blocks_of(view_.pitch, 32 * warps_x * n);
        const unsigned y = blocks_of(view_.ny - 2, rows * warps_y);
        Work work = {local(one), local(other), chunk};
        // Few planes are done by shorter blocks, so that all of the GPU has work.
        const int enough = 4 * gpu_.description().multiprocessors;
        while (work.chunk > 8 && static_cast<int>(x * y) * work.chunks() < enough) work.chunk /= 2;
        const dim3 blocks(x, y, static_cast<unsigned>(work.chunks()));
        step_kernel<T, points, rows, warps_x, warps_y><<<blocks, dim3(32 * warps_x, warps_y), 0, stream.get()>>>(
            cells(from), cells(1 - from), view_, coefficients_, work);
    }

    void copy_plane_rows(int array, const Range& planes, void* to, const void* from) {
        const CurrentGpu current(gpu_.index());
        const std::size_t row = static_cast<std::size_t>(layout().grid.nx) * sizeof(T);
        const std::size_t pitch = static_cast<std::size_t>(layout().pitch) * sizeof(T);
        const std::size_t count = static_cast<std::size_t>(layout().grid.ny) * static_cast<std::size_t>(planes.planes());
        void* const here = plane(array, planes.begin);
        cudaStream_t const stream = boundary_->get();
        if (to != nullptr) {
            TENKEN_CUDA(cudaMemcpy2DAsync(to, row, here, pitch, row, count, cudaMemcpyDeviceToHost, stream));
        } else {
            TENKEN_CUDA(cudaMemcpy2DAsync(here, pitch, from, row, row, count, cudaMemcpyHostToDevice, stream));
        }
        boundary_->synchronize();
    }

    tenken::cuda::Gpu& gpu_;
    Problem problem_;
    Coefficients<T> coefficients_;
    View view_;
    std::shared_ptr<void> arrays_[2];
    std::unique_ptr<Stream> boundary_;
    std::unique_ptr<Stream> interior_;
    std::unique_ptr<Event> ordered_;
    std::vector<Event> marks_;
    std::size_t used_ = 0;
};

}  // namespace

std::unique_ptr<GpuPart> make_gpu_part(tenken::cuda::Gpu& gpu, const Layout& layout, const Problem& problem, int number,
                                       std::size_t capacity, const Memory& memory) {
    if (problem.element_bytes == sizeof(double)) {
        return std::unique_ptr<GpuPart>(new GpuSlab<double>(gpu, layout, problem, number, capacity, memory));
    }
    return std::unique_ptr<GpuPart>(new GpuSlab<float>(gpu, layout, problem, number, capacity, memory));
}

int most_steps_a_pass(const Problem&) {
    return 1;
}

std::string kernel_text(const Problem&) {
    return "registers, " + std::to_string(rows) + " rows a thread, blocks of " + std::to_string(warps_x) + " x " +
           std::to_string(warps_y) + " warps, " + std::to_string(chunk) + " planes";
}

}  // namespace stencil
