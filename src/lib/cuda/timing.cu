#include <cuda_runtime.h>

#include <atomic>
#include <stdexcept>

#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

namespace {

/// Longer than any enqueueing takes, shorter than a person's patience (10 s at 2 GHz).
constexpr long long patience_cycles = 20000000000LL;

__global__ void hold(const volatile unsigned* flag, unsigned ticket) {
    const long long begin = clock64();
    while (*flag != ticket && clock64() - begin < patience_cycles) {
    }
}

}  // namespace

Stream::Stream(Priority priority) {
    int minimum = 0;
    int greatest = 0;
    TENKEN_CUDA(cudaDeviceGetStreamPriorityRange(&minimum, &greatest));
    TENKEN_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                             priority == Priority::high ? greatest : minimum));
}

Stream::~Stream() {
    cudaStreamDestroy(stream_);
}

void Stream::synchronize() const {
    TENKEN_CUDA(cudaStreamSynchronize(stream_));
}

Event::Event() {
    TENKEN_CUDA(cudaEventCreate(&event_));
}

Event::~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
}

void Event::record(const Stream& stream) {
    TENKEN_CUDA(cudaEventRecord(event_, stream.get()));
}

double Event::seconds_since(const Event& earlier) const {
    float milliseconds = 0;
    TENKEN_CUDA(cudaEventElapsedTime(&milliseconds, earlier.event_, event_));
    return static_cast<double>(milliseconds) * 1e-3;
}

Gate::Gate() {
    TENKEN_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&flag_), sizeof *flag_, cudaHostAllocMapped));
    *flag_ = 0;
    const cudaError_t result = cudaHostGetDevicePointer(reinterpret_cast<void**>(&flag_on_device_), flag_, 0);
    if (result != cudaSuccess) {
        cudaFreeHost(flag_);
        fail(result, "cudaHostGetDevicePointer(&flag_on_device_, flag_, 0)", __FILE__, __LINE__);
    }
}

Gate::~Gate() {
    open();
    cudaFreeHost(flag_);
}

void Gate::close(const Stream& stream) {
    ++ticket_;
    hold<<<1, 1, 0, stream.get()>>>(flag_on_device_, ticket_);
    TENKEN_CUDA(cudaGetLastError());
}

void Gate::open() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *static_cast<volatile unsigned*>(flag_) = ticket_;
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

void require_code(const std::string& compute_capability, const std::string& name) {
    cudaFuncAttributes attributes;
    const cudaError_t result = cudaFuncGetAttributes(&attributes, hold);
    if (result == cudaSuccess) return;
    cudaGetLastError();
    if (result != cudaErrorNoKernelImageForDevice && result != cudaErrorInvalidDeviceFunction &&
        result != cudaErrorInvalidKernelImage) {
        fail(result, "cudaFuncGetAttributes(&attributes, hold)", __FILE__, __LINE__);
    }
    throw std::runtime_error("this program holds no code for " + name + " (compute capability " +
                             compute_capability + "); it was built for " TENKEN_CUDA_ARCHITECTURES);
}

}  // namespace cuda
}  // namespace tenken
