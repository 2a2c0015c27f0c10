// A series of repetitions that starts slowly and then reaches a plateau: the visible effect of migration.
#pragma once

#include <vector>

namespace tenken {

/// The point where a series of rates reaches its plateau.
struct Ramp {
    long repetition =
        1;  ///< counted from 1: the first from which five in a row (or all remaining ones) are on the plateau
    double before = 0;   ///< median rate before it; the first rate if there is none before it
    double plateau = 0;  ///< median of the last quarter

    /// Whether there was a significant ramp: more than one repetition below 0.9 of the plateau.
    bool seen() const { return repetition > 2 && before < 0.9 * plateau; }
};

/// A rate is on the plateau if it reaches `share` of it.
/// @throws std::invalid_argument if there are no rates
Ramp find_ramp(const std::vector<double>& rates, double share = 0.95);

}  // namespace tenken
