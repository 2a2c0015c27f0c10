// Work concurrent with the main stream of a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "lib/cuda/check.h"
#include "lib/cuda/timing.h"
#include "programs/hpcg/exchange.h"

namespace hpcg {

/// A separate stream next to the main one, with priority. Behind the blocks of a pass over the matrix, a
/// message would start only when the pass ends.
class CommStream {
  public:
    explicit CommStream(const tenken::cuda::Stream& main)
        : main_(main), stream_(tenken::cuda::Stream::Priority::high) {}
    const tenken::cuda::Stream& stream() const { return stream_; }
    /// Work enqueued here from now on waits for the present work of the main stream.
    void fork() {
        forked_.record(main_);
        TENKEN_CUDA(cudaStreamWaitEvent(stream_.get(), forked_.get(), 0));
    }
    /// Work enqueued on the main stream from now on waits for the present work here.
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

/// An exchange whose messages are enqueued on a stream: the main one, or a separate one next to it.
class StreamExchange : public Exchange {
  public:
    explicit StreamExchange(const tenken::cuda::Stream& stream) : stream_(stream), comm_stream_(stream) {}
    bool capturable() const override { return true; }
    void exchange(const Halo& halo, const double* send, double* receive) override {
        move(halo, send, receive, stream_);
    }
    void begin(const Halo& halo, const double* send, double* receive) override {
        comm_stream_.fork();
        move(halo, send, receive, comm_stream_.stream());
    }
    void end() override { comm_stream_.join(); }

  protected:
    virtual void move(const Halo& halo, const double* send, double* receive,
                      const tenken::cuda::Stream& stream) = 0;

    const tenken::cuda::Stream& stream_;

  private:
    CommStream comm_stream_;
};

}  // namespace hpcg
