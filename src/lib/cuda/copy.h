// A[i] = B[i] by the GPU, wherever the two arrays lie.
#pragma once

#include <cstddef>
#include <string>

#include "lib/cuda/launch.h"

namespace tenken {
namespace cuda {

/// Enqueues to[i] = from[i] for i in [0, elements) by a kernel. Both may lie in any memory that the current
/// GPU can reach (its own, managed, pinned, a peer's, malloc's where it has pageable access); they are moved
/// 16 bytes at a time where both are aligned to that, else 8.
void copy(double* to, const double* from, std::size_t elements, const Launch& launch, const Stream& stream);

/// The launch for copy() that is best between these two arrays, by trying. Writes `to`, and makes pages
/// migrate that can.
Launch choose_copy_launch(double* to, const double* from, std::size_t elements, int multiprocessors,
                          const Stream& stream);

}  // namespace cuda
}  // namespace tenken
