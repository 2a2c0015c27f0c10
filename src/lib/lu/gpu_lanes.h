// The lanes of a factorisation on a GPU: streams with cuBLAS on each, marks and time stamps by events.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "lib/cuda/library.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "lib/lu/factor.h"

namespace lu {

constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

/// cuBLAS on one stream, with a separate workspace.
class Blas {
  public:
    explicit Blas(cudaStream_t stream) : workspace_(workspace_bytes) {
        TENKEN_CUBLAS(cublasCreate(&handle_));
        TENKEN_CUBLAS(cublasSetStream(handle_, stream));
#if CUDART_VERSION >= 11000
        TENKEN_CUBLAS(cublasSetWorkspace(handle_, workspace_.data(), workspace_bytes));
#endif
        TENKEN_CUBLAS(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH));  // no emulation of FP64
    }
    ~Blas() { cublasDestroy(handle_); }
    Blas(const Blas&) = delete;
    Blas& operator=(const Blas&) = delete;
    cublasHandle_t get() const { return handle_; }
    /// Also for cuBLASLt on the same stream.
    void* workspace() { return workspace_.data(); }

  private:
    tenken::cuda::DeviceArray<char> workspace_;
    cublasHandle_t handle_ = nullptr;
};

/// The stream of one lane, and cuBLAS on it.
struct GpuLane {
    using Priority = tenken::cuda::Stream::Priority;
    explicit GpuLane(Priority priority) : stream(priority), blas(stream.get()) {}
    tenken::cuda::Stream stream;
    Blas blas;
};

/// A Stepper whose lanes are two streams of the current GPU, the panel's before the updates'.
/// @tparam Engine derived from Stepper @tparam Parts of a lane: a GpuLane with two buffers, constructed from
/// its priority and their sizes
template <typename Engine, typename Parts>
class GpuLanes : public Engine {
  public:
    GpuLanes(std::int64_t update_first, std::int64_t update_second, std::int64_t panel_first,
             std::int64_t panel_second)
        : update_(GpuLane::Priority::normal, update_first, update_second),
          panel_(GpuLane::Priority::high, panel_first, panel_second) {
        for (cudaEvent_t& one : marks_) TENKEN_CUDA(cudaEventCreateWithFlags(&one, cudaEventDisableTiming));
    }
    ~GpuLanes() override {
        for (cudaEvent_t one : marks_) cudaEventDestroy(one);
    }

    void mark(Lane lane, int which) override {
        TENKEN_CUDA(cudaEventRecord(marks_[which], of(lane).stream.get()));
    }
    void wait(Lane lane, int which) override {
        TENKEN_CUDA(cudaStreamWaitEvent(of(lane).stream.get(), marks_[which], 0));
    }
    int stamp(Lane lane) override {
        if (used_ == stamps_.size()) stamps_.emplace_back();
        TENKEN_CUDA(cudaEventRecord(stamps_[used_].get(), of(lane).stream.get()));
        return static_cast<int>(used_++);
    }
    double seconds_between(int earlier, int later) override {
        return stamps_[static_cast<std::size_t>(later)].seconds_since(
            stamps_[static_cast<std::size_t>(earlier)]);
    }
    void forget_stamps() override { used_ = 0; }

  protected:
    Parts& of(Lane lane) { return lane == Lane::update ? update_ : panel_; }

    Parts update_;
    Parts panel_;

  private:
    cudaEvent_t marks_[Stepper::marks] = {};
    std::vector<tenken::cuda::Event> stamps_;
    std::size_t used_ = 0;
};

}  // namespace lu
