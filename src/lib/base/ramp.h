// A series of repetitions that begins slowly and then reaches a plateau: migration, seen from outside.
#pragma once

#include <vector>

namespace tenken {

/// Where a series of rates reaches its plateau.
struct Ramp {
    long repetition =
        1;  ///< counted from 1: the first from which five in a row (or all that are left) are on it
    double before = 0;   ///< median rate before it; the first rate where nothing is before it
    double plateau = 0;  ///< median of the last quarter

    /// Whether there was a slow beginning to speak of: more than one repetition, below 0.9 of the plateau.
    bool seen() const { return repetition > 2 && before < 0.9 * plateau; }
};

/// A rate is on the plateau from `share` of it on.
/// @throws std::invalid_argument when there are no rates
Ramp find_ramp(const std::vector<double>& rates, double share = 0.95);

}  // namespace tenken
