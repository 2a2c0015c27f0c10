// Work beside the main stream of a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "lib/cuda/check.h"
#include "lib/cuda/timing.h"

namespace hpcg {

/// A stream of its own beside the main one. Its blocks go first: behind those of a pass over the matrix a
/// message would begin when the pass ends.
class CommStream {
  public:
    explicit CommStream(const tenken::cuda::Stream& main)
        : main_(main), stream_(tenken::cuda::Stream::Priority::high) {}
    const tenken::cuda::Stream& stream() const { return stream_; }
    /// What is enqueued here from now on waits for what the main stream has now.
    void fork() {
        forked_.record(main_);
        TENKEN_CUDA(cudaStreamWaitEvent(stream_.get(), forked_.get(), 0));
    }
    /// What is enqueued on the main stream from now on waits for what is here.
    void join() {
        joined_.record(stream_);
        TENKEN_CUDA(cudaStreamWaitEvent(main_.get(), joined_.get(), 0));
    }

  private:
    const tenken::cuda::Stream& main_;
    tenken::cuda::Stream stream_;
    tenken::cuda::Event forked_;
    tenken::cuda::Event joined_;
};

}  // namespace hpcg
