#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "lib/cuda/launch.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/peer.h"
#include "lib/cuda/verify.cuh"
#include "programs/stencil/cuts.cuh"
#include "programs/stencil/gpu_part.h"

namespace stencil {

namespace {

using tenken::cuda::CurrentGpu;
using tenken::cuda::Event;
using tenken::cuda::Stream;

/// Kernels may read up to this many bytes before and after the planes, without using them.
constexpr std::size_t back_bytes = 4096;

/// Planes per block, if there are enough for the whole GPU: few enough for a balanced distribution.
constexpr int usual_chunk = 128;
constexpr int min_chunk = 8;

template <typename T>
__global__ void fill_slab(T* first, T* second, Layout layout, long planes) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    const std::size_t all = layout.plane() * static_cast<std::size_t>(planes);
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < all;
         i += step) {
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

/// A cell after `steps` steps directly from the formula. Planes z <= low or z >= high are fixed.
template <typename T, int points, int steps>
struct Formula {
    static __device__ T at(const T* from, const View& g, const Coefficients<T>& c, int x, int y, int z,
                           int low, int high) {
        const bool fixed = x <= 0 || x >= g.nx - 1 || y <= 0 || y >= g.ny - 1 || z <= low || z >= high;
        if (fixed) return Formula<T, points, 0>::at(from, g, c, x, y, z, low, high);
        return stepped<points>(c, [&](int dz, int dy, int dx) {
            return Formula<T, points, steps - 1>::at(from, g, c, x + dx, y + dy, z + dz, low, high);
        });
    }
};
template <typename T, int points>
struct Formula<T, points, 0> {
    static __device__ T at(const T* from, const View& g, const Coefficients<T>&, int x, int y, int z, int,
                           int) {
        return from[static_cast<std::size_t>(z) * g.plane +
                    static_cast<std::size_t>(y) * static_cast<std::size_t>(g.pitch) +
                    static_cast<std::size_t>(x)];
    }
};

/// Compares one in `every` cells of some planes, with a different offset in each row, with the result of a
/// pass.
template <typename T, int points, int steps>
__global__ void compare_kernel(const T* __restrict__ from, const T* __restrict__ to, View g,
                               Coefficients<T> c, int begin, int low, int high, int every, Wrong* wrong) {
    const int y = 1 + static_cast<int>(blockIdx.y);
    const int z = begin + static_cast<int>(blockIdx.z);
    const int x =
        1 + static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * every + (7 * y + 13 * z) % every;
    if (x >= g.nx - 1) return;
    const T expected = Formula<T, points, steps>::at(from, g, c, x, y, z, low, high);
    const T found = Formula<T, points, 0>::at(to, g, c, x, y, z, low, high);
    if (found == expected) return;  // never true for NaN
    atomicAdd(&wrong->count, 1ULL);
    atomicMin(&wrong->first, static_cast<unsigned long long>(static_cast<std::size_t>(z) * g.plane +
                                                             static_cast<std::size_t>(y) *
                                                                 static_cast<std::size_t>(g.pitch) +
                                                             static_cast<std::size_t>(x)));
}

constexpr long max_blocks = 60000;  // of a grid's third dimension

template <typename T>
class GpuSlab : public GpuPart {
  public:
    GpuSlab(tenken::cuda::Gpu& gpu, const Layout& layout, const Problem& problem, int number,
            std::size_t capacity, const Memory& memory, Tuning& tuning)
        : GpuPart(layout, number),
          gpu_(gpu),
          tuning_(tuning),
          problem_(problem),
          coefficients_(coefficients<T>(problem.points)) {
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
        return cells_of(array) + static_cast<std::size_t>(layout().local(z)) * layout().plane();
    }
    std::size_t plane_bytes() const override { return layout().plane() * sizeof(T); }

    void fill() override {
        const CurrentGpu current(gpu_.index());
        for (const std::shared_ptr<void>& array : arrays_) {
            TENKEN_CUDA(cudaMemsetAsync(array.get(), 0, front_bytes, boundary_->get()));
        }
        write_formula();
        const bool alone = layout().halo == 0;
        if (!alone || tuning_.known(problem_.temporal_block)) return;
        tune();
        write_formula();
    }

    void step(Queue queue, int from, const Range& one, const Range& other, int steps) override {
        if (one.planes() + other.planes() == 0) return;
        const CurrentGpu current(gpu_.index());
        const std::vector<Cut<T>>& all = cuts_of(steps);
        launch(all[tuning_.chosen(steps)], stream(queue), from, {local(one), local(other), 0});
    }

    void order(Queue later, Queue earlier) override {
        const CurrentGpu current(gpu_.index());
        ordered_->record(stream(earlier));
        TENKEN_CUDA(cudaStreamWaitEvent(stream(later).get(), ordered_->get(), 0));
    }
    void wait(Queue queue) override { stream(queue).synchronize(); }

    void begin_marks(long maximum) override {
        const CurrentGpu current(gpu_.index());
        while (static_cast<long>(marks_.size()) < maximum + 1) marks_.emplace_back();
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

    tenken::ErrorScan compare_pass(int from, int steps) override {
        const CurrentGpu current(gpu_.index());
        const bool all = problem_.points == 27;
        return steps == 1 ? (all ? compare<27, 1>(from, 1) : compare<7, 1>(from, 1))
                          : (all ? compare<27, 2>(from, 61) : compare<7, 2>(from, 61));
    }

    void read(int array, const Range& planes, void* to) override {
        copy_plane_rows(array, planes, to, nullptr);
    }
    void write(int array, long z, const void* from) override {
        copy_plane_rows(array, {z, z + 1}, nullptr, from);
    }

  private:
    static std::shared_ptr<void> on_gpu(std::size_t bytes) {
        return std::shared_ptr<void>(tenken::cuda::DeviceMemory::allocate(bytes),
                                     tenken::cuda::DeviceMemory::free);
    }

    T* cells_of(int array) {
        return reinterpret_cast<T*>(static_cast<unsigned char*>(arrays_[array].get()) + front_bytes);
    }

    Planes local(const Range& range) const {
        if (range.planes() == 0) return {0, 0};
        return {static_cast<int>(layout().local(range.begin)), static_cast<int>(layout().local(range.end))};
    }

    /// Planes of its memory that never change, or at its ends.
    int lowest() const {
        const Slab slab = layout().slab;
        return slab.first == 0 ? static_cast<int>(layout().local(0)) : 0;
    }
    int highest() const {
        const Slab slab = layout().slab;
        const bool top = slab.end() == layout().grid.nz;
        return static_cast<int>(top ? layout().local(slab.end() - 1) : layout().planes() - 1);
    }

    template <int points, int steps>
    tenken::ErrorScan compare(int from, int every) {
        const Slab slab = layout().slab;
        const long begin = slab.first == 0 ? 1 : slab.first;
        const long end = slab.end() == layout().grid.nz ? slab.end() - 1 : slab.end();
        tenken::cuda::DeviceArray<Wrong> wrong(1);
        Wrong found = {0, ~0ULL};
        cudaStream_t const stream = interior_->get();
        TENKEN_CUDA(cudaMemcpyAsync(wrong.data(), &found, sizeof found, cudaMemcpyHostToDevice, stream));
        const auto threads = static_cast<unsigned>(every == 1 ? 128 : 32);
        const unsigned cells = static_cast<unsigned>((view_.nx - 2 + every - 1) / every);
        for (long z = begin; z < end; z += max_blocks) {
            const dim3 blocks((cells + threads - 1) / threads, static_cast<unsigned>(view_.ny - 2),
                              static_cast<unsigned>(std::min(end - z, max_blocks)));
            compare_kernel<T, points, steps><<<blocks, threads, 0, stream>>>(
                cells_of(from), cells_of(1 - from), view_, coefficients_, static_cast<int>(layout().local(z)),
                lowest(), highest(), every, wrong.data());
            TENKEN_CUDA(cudaGetLastError());
        }
        TENKEN_CUDA(cudaMemcpyAsync(&found, wrong.data(), sizeof found, cudaMemcpyDeviceToHost, stream));
        interior_->synchronize();
        tenken::ErrorScan errors(0);
        if (found.count > 0) {
            T value = 0;
            const auto first = static_cast<std::size_t>(found.first);
            TENKEN_CUDA(cudaMemcpy(&value, cells_of(1 - from) + first, sizeof value, cudaMemcpyDefault));
            // The kernel reports only that it is wrong, since the size of the error does not matter.
            errors.compare(first, static_cast<double>(value), std::numeric_limits<double>::infinity());
        }
        return errors;
    }

    void write_formula() {
        fill_slab<<<4096, 256, 0, boundary_->get()>>>(cells_of(0), cells_of(1), layout(), layout().planes());
        TENKEN_CUDA(cudaGetLastError());
        boundary_->synchronize();
    }

    const std::vector<Cut<T>>& cuts_of(int steps) const {
        return problem_.points == 27 ? cuts<T, 27>(steps) : cuts<T, 7>(steps);
    }

    /// Runs every candidate a few times on the actual arrays and selects the fastest, the first of equally
    /// good ones.
    void tune() {
        const int steps = problem_.temporal_block;
        const std::vector<Cut<T>>& all = cuts_of(steps);
        const Work work = {{lowest() + 1, highest()}, {0, 0}, 0};
        std::vector<Event> events(6);
        std::vector<double> medians;
        for (const Cut<T>& cut : all) {
            launch(cut, *interior_, 0, work);
            for (Event& event : events) {
                event.record(*interior_);
                launch(cut, *interior_, 0, work);
            }
            interior_->synchronize();
            std::vector<double> seconds;
            for (std::size_t i = 1; i < events.size(); ++i) {
                seconds.push_back(events[i].seconds_since(events[i - 1]));
            }
            std::sort(seconds.begin(), seconds.end());
            medians.push_back(seconds[seconds.size() / 2]);
        }
        const std::size_t best = tenken::cuda::cheapest(medians, 0.003);
        std::string text = all[best].text() + "; tried:";
        for (std::size_t i = 0; i < all.size(); ++i) {
            char tried[64];
            std::snprintf(tried, sizeof tried, " %s %.3f ms", all[i].name().c_str(), 1e3 * medians[i]);
            text += (i == 0 ? "" : ",") + std::string(tried);
        }
        tuning_.choose(steps, best, text);
    }

    void launch(const Cut<T>& cut, Stream& stream, int from, Work work) {
        const auto up = [](int amount, int each) {
            return static_cast<unsigned>((amount + each - 1) / each);
        };
        // Tiles of two steps begin at a fixed cell and end half a pack inside it.
        const int cells = cut.shared == 0 ? view_.pitch : view_.nx - 1 - Pack<T>::cells / 2;
        const unsigned x = up(cells, cut.width);
        const unsigned y = up(view_.ny - 2, cut.height);
        const long enough = 8L * gpu_.description().multiprocessors;
        work.chunk =
            std::min(usual_chunk, std::max(work.one.end - work.one.begin, work.other.end - work.other.begin));
        while (work.chunk > min_chunk && static_cast<long>(x) * y * work.chunks() < enough) work.chunk /= 2;
        cut.launch(cut, dim3(x, y, static_cast<unsigned>(work.chunks())), stream.get(), cells_of(from),
                   cells_of(1 - from), view_, coefficients_, work, lowest(), highest());
        TENKEN_CUDA(cudaGetLastError());
    }

    void copy_plane_rows(int array, const Range& planes, void* to, const void* from) {
        const CurrentGpu current(gpu_.index());
        const std::size_t row = static_cast<std::size_t>(layout().grid.nx) * sizeof(T);
        const std::size_t pitch = static_cast<std::size_t>(layout().pitch) * sizeof(T);
        const std::size_t count =
            static_cast<std::size_t>(layout().grid.ny) * static_cast<std::size_t>(planes.planes());
        void* const here = plane(array, planes.begin);
        cudaStream_t const stream = boundary_->get();
        if (to != nullptr) {
            TENKEN_CUDA(cudaMemcpy2DAsync(to, row, here, pitch, row, count, cudaMemcpyDeviceToHost, stream));
        } else {
            TENKEN_CUDA(
                cudaMemcpy2DAsync(here, pitch, from, row, row, count, cudaMemcpyHostToDevice, stream));
        }
        boundary_->synchronize();
    }

    tenken::cuda::Gpu& gpu_;
    Tuning& tuning_;
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

std::unique_ptr<GpuPart> make_gpu_part(tenken::cuda::Gpu& gpu, const Layout& layout, const Problem& problem,
                                       int number, std::size_t capacity, const Memory& memory,
                                       Tuning& tuning) {
    if (problem.element_bytes == sizeof(double)) {
        return std::unique_ptr<GpuPart>(
            new GpuSlab<double>(gpu, layout, problem, number, capacity, memory, tuning));
    }
    return std::unique_ptr<GpuPart>(
        new GpuSlab<float>(gpu, layout, problem, number, capacity, memory, tuning));
}

int max_temporal_block(const Problem&) {
    return 2;
}

}  // namespace stencil
