// How a bandwidth kernel is launched, and how the best launch for a GPU is found.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "common/cuda/timing.h"

namespace tenken {
namespace cuda {

/// normal: the caches keep what they like. streaming: data marked as used once (ld.cs, st.cs).
enum class Caching { normal, streaming };

struct Launch {
    int threads = 512;         ///< of a block
    int pairs_per_thread = 1;  ///< pairs of doubles that a thread handles before it goes on: 1, 2 or 4
    Caching caching = Caching::normal;
    int blocks =
        0;  ///< the grid, whose blocks then loop over the arrays; 0: as many as it takes, without loop

    /// Blocks for arrays of this many doubles.
    unsigned grid(std::size_t elements) const;
    /// e.g. "512 threads x 1 pair, streaming, one pass" or "... , 264 blocks looping"
    std::string text() const;
};

/// The launches worth trying on a GPU for kernels that write an array, the default first.
/// @param multiprocessors of the GPU
std::vector<Launch> sweep_launches(int multiprocessors);
/// The same for kernels that only read and reduce; all of them loop.
std::vector<Launch> reduction_launches(int multiprocessors);

/// A launch other than the default is taken only when it is faster by more than this fraction, so that the
/// choice does not flicker from run to run between two that are equally good.
constexpr double launch_gain = 0.01;

/// Times every candidate a few times by events and takes the fastest median; the first one keeps its place
/// unless another gains more than launch_gain.
/// @param run enqueues the kernel with a launch
Launch choose_launch(const std::vector<Launch>& candidates, const Stream& stream,
                     const std::function<void(const Launch&)>& run);

}  // namespace cuda
}  // namespace tenken
