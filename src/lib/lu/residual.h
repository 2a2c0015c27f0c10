// The residual that decides whether a solution is accepted.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/base/ranks.h"
#include "lib/lu/distribution.h"

namespace lu {

/// ||Ax-b|| / (eps (||A|| ||x|| + ||b||) N) of these norms, eps = 2^-53.
inline double scaled_residual(double r, double a, double x, double b, std::int64_t n) {
    constexpr double epsilon = 1.0 / 9007199254740992.0;
    return r / (epsilon * (a * x + b) * static_cast<double>(n));
}

/// The rows of A x - b that a rank computes: equal consecutive parts of n.
inline Range rows_of_rank(std::int64_t n, const tenken::Ranks& ranks) {
    const std::int64_t share = (n + ranks.size() - 1) / ranks.size();
    const std::int64_t begin = std::min(n, share * ranks.rank());
    return {begin, std::min(n, begin + share)};
}

}  // namespace lu
