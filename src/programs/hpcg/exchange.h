// Transfers between GPUs: by their own stores, by NCCL, by an MPI that accepts device
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
    /// Exchanges the content of `send` at this point of the stream, concurrently with work enqueued until
    /// end(); work enqueued after that finds it received.
    virtual void begin(const Halo& halo, const double* send, double* receive) = 0;
    virtual void end() = 0;
    /// Sums one number over all ranks, in place.
    virtual void sum(double* number) = 0;
    /// Whether it may be part of a CUDA graph.
    virtual bool capturable() const = 0;
};

/// The methods: "auto" selects peer stores if the ranks are on one node, each with its own GPU that can
/// access the memory of the others; otherwise NCCL if available, otherwise the host.
/// @param own_gpu no other rank uses this rank's GPU
/// @param max_points of one message between two ranks, of any level and rank
/// @param why the reason of the choice
/// @throws tenken::Waived if the requested method is not available
std::unique_ptr<Exchange> make_exchange(const std::string& way, Ranks& ranks,
                                        const tenken::cuda::Stream& stream, bool own_gpu, int max_points,
                                        std::string& why);

}  // namespace hpcg
