// Transfer of panels and rows between GPUs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

#include "lib/lu/ranks.h"

namespace lu {

class Communicator {
  public:
    virtual ~Communicator() = default;
    /// Enqueues, or performs while the stream is empty: broadcast of `bytes` from `root` to all ranks.
    virtual void broadcast(void* data, std::size_t bytes, int root, cudaStream_t stream) = 0;
    /// The sum over the ranks of a process column, in each of them.
    virtual void sum_in_column(double* data, std::size_t count, cudaStream_t stream) = 0;
    /// "NCCL 2.28.3", "MPI, staged through the host"
    virtual std::string text() const = 0;
};

enum class CommunicatorKind { automatic, nccl, mpi, host };

/// @param p, q the grid of `ranks`, which already exists. Called by all ranks together, each with its GPU
/// current.
/// @throws std::runtime_error if the requested kind is not available
std::unique_ptr<Communicator> make_communicator(CommunicatorKind kind, Ranks& ranks, int p, int q);

}  // namespace lu
