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

enum class Operation { all_reduce, all_gather, reduce_scatter, sendrecv, alltoall };
enum class Type { fp64, fp32, bf16 };

/// Bytes of an element.
std::size_t width(Type type);

/// An operation on elements of one type, with its name in the document.
struct Collective {
    const char* name;
    Operation operation;
    Type type;
};

/// Bus bandwidth is size / time x this, which makes it comparable with one link for any number of ranks
/// (nccl-tests, doc/PERFORMANCE.md): 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and
/// alltoall, 1 for sendrecv.
double bus_factor(Operation operation, int ranks);

/// Sizes are multiples of this many bytes for each rank: a rank's part is then a whole number of elements of
/// any type, aligned as NCCL's fastest loads need it.
constexpr std::size_t bytes_each = 16;

class Ring {
  public:
    /// Joins, collectively. @param first NCCL rank of this process's first GPU
    Ring(const Library& library, const std::vector<tenken::cuda::Gpu*>& gpus, const UniqueId& id, int first,
         int ranks, std::size_t bytes);
    ~Ring();

    /// Writes the send buffers of the operation, and NaN into the receive buffers.
    /// @param windows places in the buffers that consecutive operations use in turn, so that a message does
    ///        not stay in the caches; at most as many as fit
    void prepare(const Collective& one, std::size_t bytes, int pattern, long windows);
    /// Enqueues the operation `times` times on all GPUs and waits for completion.
    void run(const Collective& one, std::size_t bytes, long times);
    /// Compares every bit that this process's GPUs received in every window.
    tenken::ErrorScan compare(const Collective& one, std::size_t bytes, int pattern);
    void flip_bit(const Collective& one);

  private:
    struct Member {
        tenken::cuda::Gpu* gpu;
        int rank;
        Comm comm;
        std::unique_ptr<tenken::cuda::Stream> stream;
        std::shared_ptr<char> send;  ///< by `mem_alloc` where NCCL has it, as its own benchmark does
        std::shared_ptr<char> receive;
    };

    const Library& library_;
    int ranks_;
    std::size_t capacity_;  ///< bytes of each buffer
    std::size_t stride_ = 0;
    long windows_ = 1;
    long turn_ = 0;
    std::vector<Member> members_;
};

}  // namespace nccl
