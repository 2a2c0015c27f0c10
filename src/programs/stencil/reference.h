// The right answer: the whole grid in one piece, one step at a time, straight from the formula.
#pragma once

#include <vector>

#include "programs/stencil/grid.h"

namespace stencil {

/// All cells after `steps` steps, x fastest, rows without padding. In the precision T, rounded as the host
/// rounds.
template <typename T>
std::vector<T> reference(const Grid& grid, int points, long steps);

}  // namespace stencil
