// The dot product of two arrays on a GPU, at the bandwidth of its memory.
#pragma once

#include <cstddef>

#include "lib/cuda/launch.h"
#include "lib/cuda/memory.h"

namespace tenken {
namespace cuda {

/// Holds the partial sums. Belongs to the GPU that is current at construction. The order of summation depends
/// only on the launch configuration, so the sum is the same in every run.
class Dot {
  public:
    Dot();
    /// Enqueues the kernel. Both arrays must be aligned to 16 bytes. `launch.blocks` must be from 1 to
    /// max_blocks.
    void enqueue(const double* a, const double* b, std::size_t elements, const Launch& launch,
                 const Stream& stream);
    /// Enqueues the transfer of the sum to the host.
    void enqueue_fetch(const Stream& stream);
    /// The last fetched sum; the stream must have been synchronised.
    double value() const { return *fetched_.data(); }

    static constexpr int max_blocks = 16384;

  private:
    DeviceArray<double> partial_;
    DeviceArray<double> sum_;
    DeviceArray<unsigned> blocks_done_;
    PinnedArray<double> fetched_;
};

}  // namespace cuda
}  // namespace tenken
