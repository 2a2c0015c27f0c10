// How panels and rows get from GPU to GPU.
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
    /// Enqueues, or does while the stream is empty: `bytes` of `root` come to all ranks.
    virtual void broadcast(void* data, std::size_t bytes, int root, cudaStream_t stream) = 0;
    /// The sum over the ranks of a process column, in each of them.
    virtual void sum_in_column(double* data, std::size_t count, cudaStream_t stream) = 0;
    /// "NCCL 2.28.3", "MPI, staged through the host"
    virtual std::string text() const = 0;
};

enum class CommunicatorKind { automatic, nccl, mpi, host };

/// @param p, q the grid of `ranks`, which is made already. Called by all ranks at once, each with its GPU
/// current.
/// @throws std::runtime_error when the kind asked for cannot be had
std::unique_ptr<Communicator> make_communicator(CommunicatorKind kind, Ranks& ranks, int p, int q);

}  // namespace lu
