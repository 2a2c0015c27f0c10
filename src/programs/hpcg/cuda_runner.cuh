// Runs the functors and passes of HPCG on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lib/cuda/block_sum.cuh"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "programs/hpcg/engine.h"
#include "programs/hpcg/exchange.h"
#include "programs/hpcg/loads.cuh"
#include "programs/hpcg/sweeps.h"

namespace hpcg {

/// Launch configuration of the passes over the matrix.
struct Tuning {
    int threads = 128;  ///< of a block
    int unroll = 3;     ///< entries of a row with loads in flight: 3, 4 or 6
    Caching caching = Caching::retaining;
    bool graph = true;    ///< whether the multigrid cycle is one CUDA graph
    bool overlap = true;  ///< whether a pass may start, with data that the previous one does not write,
                          ///< before that has ended
};

/// From compute capability 9.0 on a kernel may be launched before the previous one has ended; it waits before
/// it uses data written by that one.
#if CUDART_VERSION >= 12030
#define HPCG_HAS_OVERLAP 1
#else
#define HPCG_HAS_OVERLAP 0
#endif

__device__ inline void let_next_begin() {
#if HPCG_HAS_OVERLAP && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ inline void wait_for_last() {
#if HPCG_HAS_OVERLAP && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

template <typename Functor>
__global__ void __launch_bounds__(256) each_kernel(int count, Functor functor) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) functor(i);
}

template <typename Functor>
__global__ void __launch_bounds__(64) each_counted_kernel(const int* count, Functor functor) {
    const int all = *count;
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < all;
         i += static_cast<int>(gridDim.x * blockDim.x)) {
        functor(i);
    }
}

/// Elements of a functor's vectors in pairs, so that a thread loads 16 bytes at a time.
template <typename Functor>
__global__ void __launch_bounds__(256) each_pair_kernel(int pairs, Functor functor) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < pairs) functor.pair(i);
}

template <typename Functor>
__global__ void __launch_bounds__(256) sum_pair_kernel(int pairs, Functor functor, double* partial) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const double mine = tenken::cuda::block_sum(i < pairs ? functor.pair(i) : 0);
    if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}

/// Each block stores its part of the sum.
template <typename Functor>
__global__ void __launch_bounds__(256) sum_kernel(int count, Functor functor, double* partial) {
    double mine = 0;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += step) {
        mine += functor(static_cast<int>(i));
    }
    mine = tenken::cuda::block_sum(mine);
    if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}

/// Adds up the sums of the blocks, in an order that depends only on their number: several blocks add up
/// parts, and the last one to finish adds up the results.
constexpr int blocks_of_gathering = 64;
static __global__ void __launch_bounds__(256)
    gather_sum_kernel(const double* partial, int count, double* of_blocks, unsigned* done, double* to) {
    double mine = 0;
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count;
         i += static_cast<int>(gridDim.x * blockDim.x)) {
        mine += partial[i];
    }
    mine = tenken::cuda::block_sum(mine);
    __shared__ bool last;
    if (threadIdx.x == 0) {
        of_blocks[blockIdx.x] = mine;
        __threadfence();
        last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;  // reset to 0 for the next time
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    mine = threadIdx.x < gridDim.x ? *static_cast<const volatile double*>(of_blocks + threadIdx.x) : 0;
    mine = tenken::cuda::block_sum(mine);
    if (threadIdx.x == 0) *to = mine;
}

template <typename Functor>
__global__ void __launch_bounds__(256) max_kernel(int count, Functor functor, double* partial) {
    double maximum = 0;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
         i += step) {
        const double value = functor(static_cast<int>(i));
        if (!(value <= maximum)) maximum = value == value ? value : 1e308 * 10;  // NaN counts as infinite
    }
    partial[blockIdx.x * blockDim.x + threadIdx.x] = maximum;
}

/// Entries of a row in flight.
template <int unroll, Caching caching>
struct Entries {
    int column[unroll];
    double value[unroll];

    __device__ void load(const Loads<caching>& loads, const Slices::Gather& gather, int lane, int from) {
        constexpr int height = 32;
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (from + u >= gather.width) continue;
            const int at = (from + u) * height + lane;
            column[u] = loads.matrix(gather.columns + at);
            value[u] = loads.matrix(gather.values + at);
        }
    }
    __device__ double sum(const Loads<caching>& loads, const Slices::Gather& gather, int from,
                          double before) const {
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (from + u < gather.width) before += value[u] * loads.vector(gather.from + column[u]);
        }
        return before;
    }
};

/// One warp per slice, one thread per row. The first entries are loaded before the previous kernel has ended,
/// since the matrix does not change.
template <typename Op, int unroll, Caching caching>
__global__ void __launch_bounds__(256)
    sweep_kernel(Op op, int first, int slices, const int* order, double* partial) {
    constexpr int height = 32;
    let_next_begin();
    const Loads<caching> loads{};  // CUDA 11.8 has no default for a constant
    const int warp = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / height);
    const int lane = static_cast<int>(threadIdx.x % height);
    const bool inside = warp < slices;
    const int slice = !inside ? 0 : order == nullptr ? first + warp : order[warp];
    double sums[Op::gathers];
    Entries<unroll, caching> entries;
    Slices::Gather gather = op.gather(0, slice, height);
    if (!inside) gather.width = 0;
    entries.load(loads, gather, lane, 0);
    wait_for_last();
#pragma unroll
    for (int which = 0; which < Op::gathers; ++which) {
        if (which > 0) {
            gather = op.gather(which, slice, height);
            if (!inside) gather.width = 0;
            entries.load(loads, gather, lane, 0);
        }
        double sum = entries.sum(loads, gather, 0, 0);
        for (int k = unroll; k < gather.width; k += unroll) {
            entries.load(loads, gather, lane, k);
            sum = entries.sum(loads, gather, k, sum);
        }
        sums[which] = sum;
    }
    double mine = 0;
    if (inside) mine = op.finish(slice * height + lane, sums);
    if (partial == nullptr) return;
    mine = tenken::cuda::block_sum(mine);
    if (threadIdx.x == 0) partial[blockIdx.x] = mine;
}

/// Device memory that may be empty.
template <typename T>
class GpuMemory {
  public:
    GpuMemory() = default;
    explicit GpuMemory(std::size_t size) : memory_(new tenken::cuda::DeviceArray<T>(size)) {}
    T* data() { return memory_ ? memory_->data() : nullptr; }
    const T* data() const { return memory_ ? memory_->data() : nullptr; }
    std::size_t size() const { return memory_ ? memory_->size() : 0; }

  private:
    std::unique_ptr<tenken::cuda::DeviceArray<T>> memory_;
};

class CudaRunner {
  public:
    template <typename T>
    using Array = GpuMemory<T>;
    using Matrix = Slices;
    static constexpr int height = 32;
    static constexpr bool one_by_one = false;
    static constexpr bool rows_side_by_side = true;

    CudaRunner(const Tuning& tuning, const tenken::cuda::Stream& stream, Exchange& exchange)
        : tuning_(tuning),
          stream_(stream),
          exchange_(exchange),
          partial_(max_partials),
          of_blocks_(blocks_of_gathering),
          done_(1) {
        TENKEN_CUDA(cudaMemsetAsync(done_.data(), 0, done_.bytes(), stream_.get()));
        int device = 0;
        TENKEN_CUDA(cudaGetDevice(&device));
        TENKEN_CUDA(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device));
        TENKEN_CUDA(cudaDeviceGetAttribute(&capability_, cudaDevAttrComputeCapabilityMajor, device));
    }

    template <typename T>
    Array<T> make(std::size_t size, bool zeroed = true) {
        if (size == 0) return Array<T>();
        Array<T> array(size);
        if (zeroed) TENKEN_CUDA(cudaMemsetAsync(array.data(), 0, size * sizeof(T), stream_.get()));
        return array;
    }
    template <typename T>
    Array<T> upload(const std::vector<T>& from) {
        Array<T> to = make<T>(from.size(), false);
        if (!from.empty()) {
            TENKEN_CUDA(cudaMemcpyAsync(to.data(), from.data(), from.size() * sizeof(T),
                                        cudaMemcpyHostToDevice, stream_.get()));
            stream_.synchronize();
        }
        return to;
    }
    template <typename T>
    std::vector<T> download(const T* from, std::size_t size) {
        std::vector<T> to(size);
        if (size > 0) {
            TENKEN_CUDA(
                cudaMemcpyAsync(to.data(), from, size * sizeof(T), cudaMemcpyDeviceToHost, stream_.get()));
            stream_.synchronize();
        }
        return to;
    }
    template <typename T>
    T fetch(const T* from) {
        T value;
        TENKEN_CUDA(cudaMemcpyAsync(&value, from, sizeof(T), cudaMemcpyDeviceToHost, stream_.get()));
        stream_.synchronize();
        return value;
    }
    void synchronize() { stream_.synchronize(); }

    template <typename Functor>
    void each(int count, const Functor& functor) {
        if (count <= 0) return;
        each_kernel<<<blocks_for(count, 256), 256, 0, stream_.get()>>>(count, functor);
        TENKEN_CUDA(cudaGetLastError());
    }
    template <typename Functor>
    void each_counted(const int* count, int maximum, const Functor& functor) {
        const unsigned blocks =
            std::min(blocks_for(maximum, 64), static_cast<unsigned>(4 * multiprocessors_));
        each_counted_kernel<<<blocks, 64, 0, stream_.get()>>>(count, functor);
        TENKEN_CUDA(cudaGetLastError());
    }

    template <typename Functor>
    void sum(int count, const Functor& functor, double* to) {
        const unsigned blocks = std::min(blocks_for(count, 256), static_cast<unsigned>(8 * multiprocessors_));
        sum_kernel<<<blocks, 256, 0, stream_.get()>>>(count, functor, partial_.data());
        TENKEN_CUDA(cudaGetLastError());
        gather(static_cast<int>(blocks), to);
    }

    /// The same as each() and sum() for functors that process two adjacent elements; `count` is even.
    template <typename Functor>
    void each_pair(int count, const Functor& functor) {
        each_pair_kernel<<<blocks_for(count / 2, 256), 256, 0, stream_.get()>>>(count / 2, functor);
        TENKEN_CUDA(cudaGetLastError());
    }
    template <typename Functor>
    void sum_pair(int count, const Functor& functor, double* to) {
        const unsigned blocks = blocks_for(count / 2, 256);
        sum_pair_kernel<<<blocks, 256, 0, stream_.get()>>>(count / 2, functor, partial_.data());
        TENKEN_CUDA(cudaGetLastError());
        gather(static_cast<int>(blocks), to);
    }

    template <typename Functor>
    double maximum(int count, const Functor& functor) {
        const unsigned blocks = 64;
        max_kernel<<<blocks, 256, 0, stream_.get()>>>(count, functor, partial_.data());
        TENKEN_CUDA(cudaGetLastError());
        double found = 0;
        for (double one : download(partial_.data(), blocks * 256)) found = std::max(found, one);
        return std::isfinite(found) ? found : std::nan("");
    }

    template <typename Op>
    void sweep(int first, int slices, const Op& op) {
        launch(first, slices, nullptr, op, nullptr);
    }
    void begin_sum() { partials_ = 0; }
    template <typename Op>
    void sweep_sum(int first, int slices, const int* order, const Op& op) {
        const int blocks = static_cast<int>(blocks_for(std::int64_t{height} * slices, tuning_.threads));
        if (partials_ + blocks > max_partials)
            throw std::runtime_error("too many rows for the sums of one GPU");
        launch(first, slices, order, op, partial_.data() + partials_);
        partials_ += blocks;
    }
    void end_sum(double* to) { gather(partials_, to); }

#if CUDART_VERSION >= 10010
    /// A CUDA graph, created when its work runs for the second time.
    class Captured {
      public:
        Captured() = default;
        ~Captured() {
            if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
        }
        Captured(const Captured&) = delete;
        Captured& operator=(const Captured&) = delete;

      private:
        friend class CudaRunner;
        cudaGraphExec_t graph_ = nullptr;
        bool ran_ = false;
    };

    template <typename Work>
    void captured(Captured& captured, const Work& work) {
        if (!tuning_.graph || !exchange_.capturable()) return work();
        if (!captured.ran_) {  // libraries connect, and kernels are loaded, outside graphs
            captured.ran_ = true;
            return work();
        }
        if (captured.graph_ == nullptr) {
            cudaGraph_t graph = nullptr;
            TENKEN_CUDA(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
            try {
                work();
            } catch (...) {
                cudaStreamEndCapture(stream_.get(), &graph);
                throw;
            }
            TENKEN_CUDA(cudaStreamEndCapture(stream_.get(), &graph));
#if CUDART_VERSION >= 12000
            const cudaError_t result = cudaGraphInstantiate(&captured.graph_, graph, 0);
#else
            const cudaError_t result = cudaGraphInstantiate(&captured.graph_, graph, nullptr, nullptr, 0);
#endif
            cudaGraphDestroy(graph);
            TENKEN_CUDA(result);
        }
        TENKEN_CUDA(cudaGraphLaunch(captured.graph_, stream_.get()));
    }
#else
    /// Before CUDA 10.1 a stream cannot be captured alone, so its kernels are launched one by one.
    class Captured {};

    template <typename Work>
    void captured(Captured&, const Work& work) {
        work();
    }
#endif

    void exchange(const Halo& halo, const double* send, double* receive) {
        exchange_.exchange(halo, send, receive);
    }
    /// The same, concurrently with work that is enqueued between the two calls.
    void begin_exchange(const Halo& halo, const double* send, double* receive) {
        exchange_.begin(halo, send, receive);
    }
    void end_exchange() { exchange_.end(); }
    void all_sum(double* number) { exchange_.sum(number); }

    void mark(Phase phase) {
        if (used_ == events_.size()) events_.emplace_back();
        events_[used_].first.record(stream_);
        events_[used_].second = phase;
        ++used_;
    }
    void clear_times() {
        used_ = 0;
        times_ = PhaseSeconds();
    }
    PhaseSeconds times() {
        mark(Phase::none);
        stream_.synchronize();
        for (std::size_t i = 0; i + 1 < used_; ++i) {
            times_.add(events_[i].second, events_[i + 1].first.seconds_since(events_[i].first));
        }
        used_ = 0;
        return times_;
    }

  private:
    static constexpr int max_partials = 1 << 21;

    static unsigned blocks_for(std::int64_t threads, int of_block) {
        return static_cast<unsigned>((threads + of_block - 1) / of_block);
    }

    void gather(int count, double* to) {
        gather_sum_kernel<<<blocks_of_gathering, 256, 0, stream_.get()>>>(
            partial_.data(), count, of_blocks_.data(), done_.data(), to);
        TENKEN_CUDA(cudaGetLastError());
    }

    template <typename Op>
    void launch(int first, int slices, const int* order, const Op& op, double* partial) {
        if (slices <= 0) return;
        switch (tuning_.unroll) {
            case 3:
                return launch_unrolled<3>(first, slices, order, op, partial);
            case 6:
                return launch_unrolled<6>(first, slices, order, op, partial);
            default:
                return launch_unrolled<4>(first, slices, order, op, partial);
        }
    }
    template <int unroll, typename Op>
    void launch_unrolled(int first, int slices, const int* order, const Op& op, double* partial) {
        if (tuning_.caching == Caching::retaining) {
            launch_kernel(sweep_kernel<Op, unroll, Caching::retaining>, op, first, slices, order, partial);
        } else {
            launch_kernel(sweep_kernel<Op, unroll, Caching::streaming>, op, first, slices, order, partial);
        }
    }

    template <typename Op>
    void launch_kernel(void (*kernel)(Op, int, int, const int*, double*), const Op& op, int first, int slices,
                       const int* order, double* partial) {
        const unsigned blocks = blocks_for(std::int64_t{height} * slices, tuning_.threads);
        const auto threads = static_cast<unsigned>(tuning_.threads);
#if HPCG_HAS_OVERLAP
        if (tuning_.overlap && capability_ >= 9) {
            cudaLaunchAttribute attribute = {};
            attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
            attribute.val.programmaticStreamSerializationAllowed = 1;
            cudaLaunchConfig_t config = {};
            config.gridDim = dim3(blocks);
            config.blockDim = dim3(threads);
            config.stream = stream_.get();
            config.attrs = &attribute;
            config.numAttrs = 1;
            TENKEN_CUDA(cudaLaunchKernelEx(&config, kernel, op, first, slices, order, partial));
            return;
        }
#endif
        kernel<<<blocks, threads, 0, stream_.get()>>>(op, first, slices, order, partial);
        TENKEN_CUDA(cudaGetLastError());
    }

    Tuning tuning_;
    const tenken::cuda::Stream& stream_;
    Exchange& exchange_;
    tenken::cuda::DeviceArray<double> partial_;
    tenken::cuda::DeviceArray<double> of_blocks_;
    tenken::cuda::DeviceArray<unsigned> done_;
    int multiprocessors_ = 1;
    int capability_ = 0;
    int partials_ = 0;
    std::vector<std::pair<tenken::cuda::Event, Phase>> events_;
    std::size_t used_ = 0;
    PhaseSeconds times_;
};

}  // namespace hpcg
