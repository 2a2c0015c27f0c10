// A slab on a GPU, with the data used by exchanges between GPUs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "lib/cuda/gpus.h"
#include "lib/cuda/timing.h"
#include "programs/stencil/part.h"

namespace stencil {

class GpuPart : public Part {
  public:
    using Part::Part;
    virtual tenken::cuda::Gpu& gpu() = 0;
    int device() { return gpu().index(); }
    virtual tenken::cuda::Stream& stream(Queue queue) = 0;
    /// The allocation of an array, of the same size in all parts; its planes begin front_bytes after its
    /// start.
    virtual void* allocation(int array) = 0;
    static constexpr std::size_t front_bytes = 4096;
};

/// The fastest decomposition of its kernels on one GPU for the problem of this run: determined once, on a
/// slab of full size, by steps per pass.
class Tuning {
  public:
    bool known(int steps) const { return chosen_.count(steps) > 0; }
    /// The first one until it is known.
    std::size_t chosen(int steps) const { return known(steps) ? chosen_.at(steps).first : 0; }
    void choose(int steps, std::size_t cut, const std::string& text) { chosen_[steps] = {cut, text}; }
    /// By steps per pass: index of the chosen variant, and a text with the times of all variants.
    const std::map<int, std::pair<std::size_t, std::string>>& all() const { return chosen_; }

  private:
    std::map<int, std::pair<std::size_t, std::string>> chosen_;
};

/// @param capacity elements to allocate for an array: those of the thickest slab
std::unique_ptr<GpuPart> make_gpu_part(tenken::cuda::Gpu& gpu, const Layout& layout, const Problem& problem,
                                       int number, std::size_t capacity, const Memory& memory,
                                       Tuning& tuning);
/// Maximum number of steps per pass.
int max_temporal_block(const Problem& problem);

}  // namespace stencil
