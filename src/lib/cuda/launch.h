// Launch configurations of bandwidth kernels, and the search for the best one on a GPU.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "lib/cuda/timing.h"

namespace tenken {
namespace cuda {

/// normal: default caching. streaming: data marked as used once (ld.cs, st.cs).
enum class Caching { normal, streaming };

struct Launch {
    Launch() = default;
    Launch(int threads, int pairs_per_thread, Caching caching, int blocks = 0)
        : threads(threads), pairs_per_thread(pairs_per_thread), caching(caching), blocks(blocks) {}

    int threads = 512;         ///< of a block
    int pairs_per_thread = 1;  ///< pairs of doubles that a thread processes per iteration: 1, 2 or 4
    Caching caching = Caching::normal;
    int blocks =
        0;  ///< the grid, whose blocks then loop over the arrays; 0: as many as required, without a loop

    /// Number of blocks for arrays of this many doubles.
    unsigned grid(std::size_t elements) const;
    /// e.g. "512 threads x 1 pair, streaming, one pass" or "... , 264 blocks looping"
    std::string text() const;
};

/// A configuration for copies in any memory, without trials: the fastest on an H200 (docs/measured.md),
/// and a reasonable choice for others.
Launch copy_launch();
/// Whether configurations for GPUs of this compute capability are known from measurements.
bool launches_are_known(const std::string& compute_capability);

/// The candidates on a GPU for kernels that write an array.
/// @param multiprocessors of the GPU
std::vector<Launch> sweep_launches(int multiprocessors);
/// The same for kernels that only read and reduce; all of them loop.
std::vector<Launch> reduction_launches(int multiprocessors);

/// The first of these costs within a fraction `tie` of the minimum, so that the choice among equally good
/// ones does not vary from run to run.
std::size_t cheapest(const std::vector<double>& costs, double tie);

/// Times every candidate a few times by events and selects the one with the lowest median.
/// @param run enqueues the kernel with a launch configuration
Launch choose_launch(const std::vector<Launch>& candidates, const Stream& stream,
                     const std::function<void(const Launch&)>& run);

}  // namespace cuda
}  // namespace tenken
