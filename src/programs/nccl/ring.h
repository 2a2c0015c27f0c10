// The GPUs of this process as members of an NCCL communicator, and the operations timed on them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/verification.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "lib/nccl/library.h"

namespace nccl {

enum class Operation { all_reduce, all_gather, sendrecv };

/// Bus bandwidth is size / time x this, so that it can be compared with one link for any number of ranks
/// (nccl-tests, doc/PERFORMANCE.md): 2(n-1)/n for all_reduce, (n-1)/n for all_gather, 1 for sendrecv.
double bus_factor(Operation operation, int ranks);

class Ring {
  public:
    /// Joins, collectively. @param first NCCL rank of this process's first GPU
    Ring(const Library& library, tenken::cuda::Gpus& gpus, const std::vector<std::size_t>& members,
         const UniqueId& id, int first, int ranks, std::size_t bytes);
    ~Ring();

    /// Writes the send buffers of the operation, and NaN into the receive buffers.
    void prepare(Operation operation, std::size_t bytes, int pattern);
    /// Enqueues the operation `times` times on all GPUs and waits for completion.
    void run(Operation operation, std::size_t bytes, long times);
    /// Compares every double that this process's GPUs received, exactly.
    tenken::ErrorScan compare(Operation operation, std::size_t bytes, int pattern);
    void flip_bit();

  private:
    struct Member {
        tenken::cuda::Gpu* gpu;
        int rank;
        Comm comm;
        std::unique_ptr<tenken::cuda::Stream> stream;
        std::unique_ptr<tenken::cuda::DeviceArray<double>> send;
        std::unique_ptr<tenken::cuda::DeviceArray<double>> receive;
    };
    std::size_t sent(Operation operation, std::size_t bytes) const;
    std::size_t received(Operation operation, std::size_t bytes) const;

    const Library& library_;
    int ranks_;
    std::vector<Member> members_;
};

}  // namespace nccl
