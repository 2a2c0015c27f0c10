// The reference: the whole grid in one part, one step at a time, directly from the formula.
#pragma once

#include <vector>

#include "programs/stencil/grid.h"

namespace stencil {

/// All cells after `steps` steps, x fastest, rows without padding. In precision T, with the rounding of the
/// host.
template <typename T>
std::vector<T> reference(const Grid& grid, int points, long steps);

}  // namespace stencil
