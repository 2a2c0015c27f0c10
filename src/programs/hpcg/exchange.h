// How numbers get from one GPU to the others: by their own stores, by NCCL, by an MPI that takes device
// pointers, or through the host.
#pragma once

#include <memory>
#include <string>

#include "lib/cuda/timing.h"
#include "programs/hpcg/grid.h"
#include "programs/hpcg/ranks.h"

namespace hpcg {

/// Works on device memory, in the order of a stream.
class Exchange {
  public:
    virtual ~Exchange() = default;
    virtual std::string name() const = 0;
    virtual void exchange(const Halo& halo, const double* send, double* receive) = 0;
    /// Exchanges what is in `send` when the stream has come here, beside what is enqueued until end(); what
    /// is enqueued after that finds it received.
    virtual void begin(const Halo& halo, const double* send, double* receive) = 0;
    virtual void end() = 0;
    /// Sums one number over all ranks, in place.
    virtual void sum(double* number) = 0;
    /// Whether it may be part of a CUDA graph.
    virtual bool capturable() const = 0;
};

/// Ways that can be asked for: "auto" takes peer stores where the ranks are on one node, each with a GPU of
/// its own that reaches the others' memory, else NCCL where it is, else the host.
/// @param own_gpu no other rank uses this rank's GPU
/// @param max_points of one message between two ranks, of any level and rank
/// @param why says what decided
/// @throws tenken::Waived when the way asked for is not there
std::unique_ptr<Exchange> make_exchange(const std::string& way, Ranks& ranks,
                                        const tenken::cuda::Stream& stream, bool own_gpu, int max_points,
                                        std::string& why);

}  // namespace hpcg
