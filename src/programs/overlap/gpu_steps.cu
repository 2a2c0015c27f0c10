#include <cuda_runtime.h>

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/sweep.cuh"
#include "lib/cuda/timing.h"
#include "programs/overlap/steps.h"

namespace overlap {

namespace {

__global__ void state_kernel(std::uint32_t* state, std::uint64_t words, file_io::Words values) {
    const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
    for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(blockDim.x) + threadIdx.x; i < words;
         i += step)
        state[i] = values(i);
}

class GpuSteps : public Steps {
  public:
    GpuSteps(char* state, std::uint64_t bytes)
        : state_(reinterpret_cast<std::uint32_t*>(state)),
          bytes_(bytes),
          a_(bytes / sizeof(double)),
          b_(bytes / sizeof(double)) {
        TENKEN_CUDA(cudaMemsetAsync(a_.data(), 0, a_.bytes(), stream_.get()));
        TENKEN_CUDA(cudaMemsetAsync(b_.data(), 0, b_.bytes(), stream_.get()));
        stream_.synchronize();
    }

    int calibrate(double seconds) override {
        return tenken::passes_for(seconds, 21, [this](int passes) { return timed(passes); });
    }

    void set_passes(int passes) override { passes_ = passes; }

    void step(std::uint32_t number) override {
        for (int pass = 0; pass < passes_; ++pass) {
            const bool even = pass % 2 == 0;
            tenken::cuda::launch_sweep(launch_, stream_, even ? a_.data() : b_.data(),
                                       tenken::cuda::CopyOp{even ? b_.data() : a_.data()}, a_.size());
        }
        const std::uint64_t words = bytes_ / sizeof(std::uint32_t);
        const unsigned blocks = static_cast<unsigned>(
            std::max<std::uint64_t>(1, std::min<std::uint64_t>((words + 255) / 256, 1u << 20)));
        state_kernel<<<blocks, 256, 0, stream_.get()>>>(state_, words,
                                                        file_io::Words{number, file_io::Words::floats});
        TENKEN_CUDA(cudaGetLastError());
    }

    void copy_state(char* to) override {
        TENKEN_CUDA(cudaMemcpyAsync(to, state_, bytes_, cudaMemcpyDeviceToDevice, stream_.get()));
    }
    std::function<void()> marker() override {
        const std::shared_ptr<tenken::cuda::Event> event(new tenken::cuda::Event);
        event->record(stream_);
        return [event] { TENKEN_CUDA(cudaEventSynchronize(event->get())); };
    }
    void* event() override {
        last_.record(stream_);
        return last_.get();
    }
    void wait() override { stream_.synchronize(); }

  private:
    /// Seconds of a step, after a warm-up.
    double timed(int passes) {
        passes_ = passes;
        double seconds = 0;
        for (int i = 0; i < 3; ++i) {
            const double begin = tenken::now_seconds();
            step(1);
            wait();
            seconds = tenken::now_seconds() - begin;
        }
        return seconds;
    }

    std::uint32_t* state_;
    std::uint64_t bytes_;
    tenken::cuda::DeviceArray<double> a_;
    tenken::cuda::DeviceArray<double> b_;
    tenken::cuda::Stream stream_;
    tenken::cuda::Event last_;
    const tenken::cuda::Launch launch_ = tenken::cuda::copy_launch();
    int passes_ = 1;
};

}  // namespace

std::unique_ptr<Steps> make_gpu_steps(char* state, std::uint64_t bytes) {
    return std::unique_ptr<Steps>(new GpuSteps(state, bytes));
}

}  // namespace overlap
