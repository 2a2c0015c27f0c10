// A slab on a GPU, with what only exchanges between GPUs need to know of it.
#pragma once

#include <memory>

#include "common/cuda/gpus.h"
#include "common/cuda/timing.h"
#include "stencil/part.h"

namespace stencil {

class GpuPart : public Part {
  public:
    using Part::Part;
    virtual tenken::cuda::Gpu& gpu() = 0;
    int device() { return gpu().index(); }
    virtual tenken::cuda::Stream& stream(Queue queue) = 0;
    /// What was allocated for an array, of the same size in all parts; its planes begin front_bytes behind
    /// that.
    virtual void* allocation(int array) = 0;
    static constexpr std::size_t front_bytes = 4096;
};

/// @param capacity elements to allocate for an array: those of the thickest slab
std::unique_ptr<GpuPart> make_gpu_part(tenken::cuda::Gpu& gpu, const Layout& layout, const Problem& problem,
                                       int number, std::size_t capacity, const Memory& memory);
/// The most steps that one pass can do.
int most_steps_a_pass(const Problem& problem);
/// How the kernel is launched, for the document.
std::string kernel_text(const Problem& problem);

}  // namespace stencil
