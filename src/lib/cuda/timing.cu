#include <cuda_runtime.h>

#include <atomic>
#include <stdexcept>
#include <string>

#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

namespace {

/// Longer than any enqueueing takes, short enough for an interactive user (10 s at 2 GHz).
constexpr long long patience_cycles = 20000000000LL;

/// flags: the ticket that opens the gate, and that of the last gate that timed out.
__global__ void hold(volatile unsigned* flags, unsigned ticket) {
    const long long begin = clock64();
    while (flags[0] != ticket) {
        if (clock64() - begin < patience_cycles) continue;
        flags[1] = ticket;
        return;
    }
}

std::atomic<long> gates_expired{0};

void set_current(int device) {
    TENKEN_CUDA(cudaSetDevice(device));
}

}  // namespace

Stream::Stream(Priority priority) {
    TENKEN_CUDA(cudaGetDevice(&device_));
    int minimum = 0;
    int greatest = 0;
    TENKEN_CUDA(cudaDeviceGetStreamPriorityRange(&minimum, &greatest));
    TENKEN_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                             priority == Priority::high ? greatest : minimum));
}

Stream::Stream(int device) : Stream((set_current(device), Priority::normal)) {}

Stream::~Stream() {
    cudaStreamDestroy(stream_);
}

void Stream::require_current() const {
    int current = 0;
    TENKEN_CUDA(cudaGetDevice(&current));
    if (current == device_) return;
    throw std::logic_error("a stream of GPU " + std::to_string(device_) + " is used while GPU " +
                           std::to_string(current) + " is current");
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
    TENKEN_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&flags_), 2 * sizeof *flags_, cudaHostAllocMapped));
    flags_[0] = flags_[1] = 0;
    const cudaError_t result =
        cudaHostGetDevicePointer(reinterpret_cast<void**>(&flags_on_device_), flags_, 0);
    if (result != cudaSuccess) {
        cudaFreeHost(flags_);
        fail(result, "cudaHostGetDevicePointer(&flags_on_device_, flags_, 0)", __FILE__, __LINE__);
    }
}

Gate::~Gate() {
    open();
    count_expired();
    cudaFreeHost(flags_);
}

void Gate::count_expired() {
    const unsigned last = *static_cast<volatile unsigned*>(flags_ + 1);
    if (last != last_expired_) ++gates_expired;
    last_expired_ = last;
}

void Gate::close(const Stream& stream) {
    count_expired();
    ++ticket_;
    hold<<<1, 1, 0, stream.get()>>>(flags_on_device_, ticket_);
    TENKEN_CUDA(cudaGetLastError());
}

void Gate::open() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    *static_cast<volatile unsigned*>(flags_) = ticket_;
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

long Gate::expired() {
    return gates_expired;
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
