#include <algorithm>
#include <memory>
#include <stdexcept>

#include "lib/cuda/block_sum.cuh"
#include "lib/cuda/dot.h"
#include "lib/cuda/sweep.cuh"
#include "lib/cuda/verify.cuh"

namespace tenken {
namespace cuda {

namespace {

/// The last block to finish adds up the sums of all blocks, so that one launch is sufficient.
template <int pairs_per_thread, Caching caching>
__global__ void __launch_bounds__(1024) dot_kernel(const double* a, const double* b, std::size_t elements,
                                                   double* partial, unsigned* blocks_done, double* sum) {
    const std::size_t pairs = elements / 2;
    const std::size_t tile = static_cast<std::size_t>(blockDim.x) * pairs_per_thread;
    double sums[pairs_per_thread] = {};
    for (std::size_t base = blockIdx.x * tile; base < pairs; base += gridDim.x * tile) {
        const std::size_t first = base + threadIdx.x;
        if (base + tile <= pairs) {
            double2 x[pairs_per_thread];  // all loads are in flight before the first is used
            double2 y[pairs_per_thread];
#pragma unroll
            for (int j = 0; j < pairs_per_thread; ++j) {
                x[j] = load_pair<caching>(a, first + static_cast<std::size_t>(j) * blockDim.x);
                y[j] = load_pair<caching>(b, first + static_cast<std::size_t>(j) * blockDim.x);
            }
#pragma unroll
            for (int j = 0; j < pairs_per_thread; ++j) sums[j] += x[j].x * y[j].x + x[j].y * y[j].y;
        } else {
            for (std::size_t p = first; p < pairs; p += blockDim.x) {
                const double2 x = load_pair<caching>(a, p);
                const double2 y = load_pair<caching>(b, p);
                sums[0] += x.x * y.x + x.y * y.y;
            }
        }
    }
    if (elements % 2 != 0 && blockIdx.x == 0 && threadIdx.x == 0)
        sums[0] += a[elements - 1] * b[elements - 1];
    double mine = 0;
#pragma unroll
    for (int j = 0; j < pairs_per_thread; ++j) mine += sums[j];
    mine = block_sum(mine);

    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = mine;
        __threadfence();
        last = atomicInc(blocks_done, gridDim.x - 1) == gridDim.x - 1;  // reset to 0 for the next launch
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    double total = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
        total += *static_cast<const volatile double*>(partial + i);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) *sum = total;
}

template <int pairs_per_thread>
void launch_dot(const Launch& launch, const Stream& stream, const double* a, const double* b,
                std::size_t elements, double* partial, unsigned* blocks_done, double* sum) {
    const unsigned grid = launch.grid(elements);
    const unsigned threads = static_cast<unsigned>(launch.threads);
    if (launch.caching == Caching::streaming) {
        dot_kernel<pairs_per_thread, Caching::streaming>
            <<<grid, threads, 0, stream.get()>>>(a, b, elements, partial, blocks_done, sum);
    } else {
        dot_kernel<pairs_per_thread, Caching::normal>
            <<<grid, threads, 0, stream.get()>>>(a, b, elements, partial, blocks_done, sum);
    }
    TENKEN_CUDA(cudaGetLastError());
}

}  // namespace

constexpr int Dot::max_blocks;

Dot::Dot() : partial_(max_blocks), sum_(1), blocks_done_(1), fetched_(1) {
    TENKEN_CUDA(cudaMemset(blocks_done_.data(), 0, blocks_done_.bytes()));
    *fetched_.data() = 0;
}

void Dot::enqueue(const double* a, const double* b, std::size_t elements, const Launch& launch,
                  const Stream& stream) {
    if (launch.blocks < 1 || launch.blocks > max_blocks)
        throw std::logic_error("Dot: a grid that does not loop");
    double* const partial = partial_.data();
    switch (launch.pairs_per_thread) {
        case 1:
            return launch_dot<1>(launch, stream, a, b, elements, partial, blocks_done_.data(), sum_.data());
        case 2:
            return launch_dot<2>(launch, stream, a, b, elements, partial, blocks_done_.data(), sum_.data());
        default:
            return launch_dot<4>(launch, stream, a, b, elements, partial, blocks_done_.data(), sum_.data());
    }
}

void Dot::enqueue_fetch(const Stream& stream) {
    TENKEN_CUDA(
        cudaMemcpyAsync(fetched_.data(), sum_.data(), sizeof(double), cudaMemcpyDeviceToHost, stream.get()));
}

namespace {

struct Ones {
    __host__ __device__ double operator()(std::size_t i) const {
        return 1.0 + static_cast<double>(i % 1021) / 1024.0;
    }
};

}  // namespace

std::vector<double> time_dot(const DeviceArray<double>& a, const DeviceArray<double>& b, Gpu& gpu,
                             const Stream& stream, long repetitions, double warmup_seconds, bool monitored) {
    Dot dot;
    const auto with = [&](const Launch& launch) {
        dot.enqueue(a.data(), b.data(), a.size(), launch, stream);
    };
    const Launch best = choose_launch(reduction_launches(gpu.description().multiprocessors), stream, with);
    const auto run = [&](const Stream&) { with(best); };
    warm_up(warmup_seconds, stream, run);
    const std::unique_ptr<TimedPart> timed(monitored ? new TimedPart(gpu) : nullptr);
    return time_each(repetitions, stream, run).device;
}

TimedDots time_dots(Gpu& gpu, const Stream& stream, std::uint64_t free_bytes, long repetitions,
                    double warmup_seconds, bool monitored) {
    const std::uint64_t maximum = std::min<std::uint64_t>(std::uint64_t{2} << 30, free_bytes / 4);
    const std::size_t elements = maximum / sizeof(double) / 2 * 2;
    DeviceArray<double> a(elements);
    DeviceArray<double> b(elements);
    fill(a.data(), elements, Ones{}, stream);
    fill(b.data(), elements, Ones{}, stream);
    return {time_dot(a, b, gpu, stream, repetitions, warmup_seconds, monitored),
            2.0 * static_cast<double>(a.bytes())};
}

}  // namespace cuda
}  // namespace tenken
