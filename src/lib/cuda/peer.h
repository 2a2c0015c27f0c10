// Copies between the GPUs of one process: peer access, several GPUs in one timed repetition, and the way
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

/// Whether the driver lets GPU `from` reach the memory of GPU `to`.
bool can_access_peer(int from, int to);

/// Peer access between two GPUs, both ways, from construction to destruction. The current GPU stays.
class PeerAccess {
  public:
    /// @throws CudaError where the driver refuses
    PeerAccess(int one, int other);
    ~PeerAccess();
    PeerAccess(const PeerAccess&) = delete;
    PeerAccess& operator=(const PeerAccess&) = delete;

  private:
    bool enable(int from, int to);

    int one_;
    int other_;
    bool forth_ = false;  ///< whether it was enabled here, hence is ours to disable
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

/// Work on several GPUs that begins when one stream reaches a point and that this stream then waits for: one
/// repetition of copies that run at the same time.
class Together {
  public:
    /// One part of the work, enqueued on a stream of `gpu`, which is current.
    struct Part {
        int gpu;
        std::function<void(const Stream&)> enqueue;
    };
    /// The GPU that is current is that of the stream that later leads.
    explicit Together(std::vector<Part> parts);
    /// Enqueues all parts behind what `lead` holds, and lets it wait for them.
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

/// A copy from GPU to GPU through page-locked host memory, in chunks: while one chunk goes to its destination
/// the next one leaves its source. For GPUs that cannot reach each other, and to know what that costs.
class HostStaging {
  public:
    /// @param chunk_bytes of one buffer; @param buffers how many chunks may be under way, at least 2
    HostStaging(int from, int to, std::size_t chunk_bytes, int buffers);
    ~HostStaging();
    /// Copies and waits until it is done.
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
