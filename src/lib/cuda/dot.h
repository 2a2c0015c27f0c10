// The dot product of two arrays on a GPU, at the bandwidth of its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/host_dot.h"
#include "lib/cuda/gpus.h"
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

/// Device seconds of each dot product of two arrays of the same size, which contain numbers, by the fastest
/// launch configuration. @param monitored whether the GPU's health is monitored meanwhile
std::vector<double> time_dot(const DeviceArray<double>& a, const DeviceArray<double>& b, Gpu& gpu,
                             const Stream& stream, long repetitions, double warmup_seconds,
                             bool monitored = false);

/// The attainable read bandwidth, by the device's clock, measured on two arrays far larger than the L2.
/// @param free_bytes that this process may use
TimedDots time_dots(Gpu& gpu, const Stream& stream, std::uint64_t free_bytes, long repetitions,
                    double warmup_seconds, bool monitored = false);

}  // namespace cuda
}  // namespace tenken
