// A[i] = B[i] by the GPU, for arrays in any memory.
#pragma once

#include <cstddef>
#include <string>

#include "lib/cuda/launch.h"

namespace tenken {
namespace cuda {

/// Enqueues to[i] = from[i] for i in [0, elements) by a kernel. Both may be in any memory that the current
/// GPU can access (its own, managed, pinned, peer, malloc with pageable access); accesses are 16 bytes wide
/// if both are aligned to that, otherwise 8.
void copy(double* to, const double* from, std::size_t elements, const Launch& launch, const Stream& stream);

/// The best launch configuration of copy() between these two arrays, by trials. Writes `to`, and causes
/// migratable pages to migrate.
Launch choose_copy_launch(double* to, const double* from, std::size_t elements, int multiprocessors,
                          const Stream& stream);

}  // namespace cuda
}  // namespace tenken
