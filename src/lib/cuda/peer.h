// Copies between the GPUs of one process: peer access, several GPUs in one timed repetition, and staging
// through host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

/// Whether the driver permits GPU `from` to access the memory of GPU `to`.
bool can_access_peer(int from, int to);

/// Peer access between two GPUs, in both directions, during the lifetime. The current GPU does not change.
class PeerAccess {
  public:
    /// @throws CudaError if the driver refuses
    PeerAccess(int one, int other);
    ~PeerAccess();
    PeerAccess(const PeerAccess&) = delete;
    PeerAccess& operator=(const PeerAccess&) = delete;

  private:
    bool enable(int from, int to);

    int one_;
    int other_;
    bool forth_ = false;  ///< whether it was enabled here and must be disabled
    bool back_ = false;
};

/// Makes a GPU current until the end of the block.
class CurrentGpu {
  public:
    explicit CurrentGpu(int gpu);
    ~CurrentGpu();
    CurrentGpu(const CurrentGpu&) = delete;
    CurrentGpu& operator=(const CurrentGpu&) = delete;

  private:
    int before_ = 0;
};

/// Work on several GPUs that starts when one stream reaches a point, and for which that stream then waits:
/// one repetition of concurrent copies.
class Together {
  public:
    /// One part of the work, enqueued on a stream of `gpu`, which is current.
    struct Part {
        int gpu;
        std::function<void(const Stream&)> enqueue;
    };
    /// The current GPU must be that of the later lead stream.
    explicit Together(std::vector<Part> parts);
    /// Enqueues all parts after the work in `lead`, which waits for them.
    void launch(const Stream& lead);

  private:
    struct Branch {
        std::unique_ptr<Stream> stream;
        std::unique_ptr<Event> done;
    };
    std::vector<Part> parts_;
    std::vector<Branch> branches_;
    Event begin_;
};

/// A copy from GPU to GPU through page-locked host memory, in chunks: while one chunk is copied to its
/// destination the next one leaves its source. For GPUs without peer access, and to measure its cost.
class HostStaging {
  public:
    /// @param chunk_bytes of one buffer; @param buffers maximum number of chunks in flight, at least 2
    HostStaging(int from, int to, std::size_t chunk_bytes, int buffers);
    ~HostStaging();
    /// Copies and waits for completion.
    void copy(void* to, const void* from, std::size_t bytes);

  private:
    struct Slot {
        std::unique_ptr<PinnedArray<unsigned char>> memory;
        std::unique_ptr<Event> filled;   ///< on the source's stream
        std::unique_ptr<Event> emptied;  ///< on the destination's stream
    };
    int from_gpu_;
    int to_gpu_;
    std::size_t chunk_bytes_;
    std::unique_ptr<Stream> out_;
    std::unique_ptr<Stream> in_;
    std::vector<Slot> slots_;
};

}  // namespace cuda
}  // namespace tenken
