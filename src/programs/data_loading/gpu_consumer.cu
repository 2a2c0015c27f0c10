#include <cuda_runtime.h>

#include <algorithm>

#include "lib/cuda/memory.h"
#include "lib/cuda/sweep.cuh"
#include "lib/cuda/timing.h"
#include "programs/data_loading/consumer.h"
#include "programs/data_loading/samples.h"

namespace data_loading {

namespace {

constexpr unsigned threads_of_block = 256;
constexpr unsigned blocks_of_sample = 64;

/// A row of blocks adds up one sample. Sums of unsigned numbers do not depend on the order.
__global__ void __launch_bounds__(threads_of_block)
    checksum_kernel(const char* memory, std::uint64_t stride, const std::uint64_t* words,
                    unsigned long long* sums) {
    const std::uint32_t* const at = reinterpret_cast<const std::uint32_t*>(memory + blockIdx.y * stride);
    const std::uint64_t count = words[blockIdx.y];
    const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
    const std::uint64_t first = blockIdx.x * static_cast<std::uint64_t>(blockDim.x) + threadIdx.x;
    unsigned long long sum = 0;
    // Four words at once; each sample begins at a multiple of 4096 bytes.
    const uint4* const quads = reinterpret_cast<const uint4*>(at);
    for (std::uint64_t q = first; q < count / 4; q += step) {
        const uint4 four = __ldcs(quads + q);
        sum += term_of(four.x, 4 * q) + term_of(four.y, 4 * q + 1) + term_of(four.z, 4 * q + 2) +
               term_of(four.w, 4 * q + 3);
    }
    const std::uint64_t i = count / 4 * 4 + first;
    if (i < count) sum += term_of(at[i], i);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(sums + blockIdx.y, sum);
}

class GpuConsumer : public Consumer {
  public:
    explicit GpuConsumer(std::size_t batch)
        : words_(batch), sums_(batch), host_words_(batch), host_sums_(batch), a_(elements), b_(elements) {
        TENKEN_CUDA(cudaMemsetAsync(a_.data(), 0, a_.bytes(), stream_.get()));
        TENKEN_CUDA(cudaMemsetAsync(b_.data(), 0, b_.bytes(), stream_.get()));
        stream_.synchronize();
    }

    void step(const char* memory, std::uint64_t stride, const std::vector<std::uint64_t>& words,
              std::vector<std::uint64_t>& sums) override {
        const std::size_t count = words.size();
        std::copy(words.begin(), words.end(), host_words_.data());
        TENKEN_CUDA(cudaMemcpyAsync(words_.data(), host_words_.data(), count * sizeof(std::uint64_t),
                                    cudaMemcpyHostToDevice, stream_.get()));
        TENKEN_CUDA(cudaMemsetAsync(sums_.data(), 0, count * sizeof(unsigned long long), stream_.get()));
        const dim3 grid(blocks_of_sample, static_cast<unsigned>(count));
        checksum_kernel<<<grid, threads_of_block, 0, stream_.get()>>>(memory, stride, words_.data(),
                                                                      sums_.data());
        TENKEN_CUDA(cudaGetLastError());
        TENKEN_CUDA(cudaMemcpyAsync(host_sums_.data(), sums_.data(), count * sizeof(unsigned long long),
                                    cudaMemcpyDeviceToHost, stream_.get()));
        for (int pass = 0; pass < passes_; ++pass) sweep(pass);
        stream_.synchronize();
        std::copy(host_sums_.data(), host_sums_.data() + count, sums.begin());
    }

  private:
    static constexpr std::size_t elements = std::size_t{1} << 25;
    void sweep(int pass) {
        const bool even = pass % 2 == 0;
        tenken::cuda::launch_sweep(launch_, stream_, even ? a_.data() : b_.data(),
                                   tenken::cuda::CopyOp{even ? b_.data() : a_.data()}, elements);
    }

    tenken::cuda::Stream stream_;
    tenken::cuda::DeviceArray<std::uint64_t> words_;
    tenken::cuda::DeviceArray<unsigned long long> sums_;
    tenken::cuda::PinnedArray<std::uint64_t> host_words_;
    tenken::cuda::PinnedArray<unsigned long long> host_sums_;
    tenken::cuda::DeviceArray<double> a_;
    tenken::cuda::DeviceArray<double> b_;
    const tenken::cuda::Launch launch_ = tenken::cuda::copy_launch();
};

}  // namespace

std::unique_ptr<Consumer> make_gpu_consumer(std::size_t batch) {
    return std::unique_ptr<Consumer>(new GpuConsumer(batch));
}

}  // namespace data_loading
