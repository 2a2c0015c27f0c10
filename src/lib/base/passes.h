// Steps of programs that compute for a given time while files are read or written.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>

namespace tenken {

/// Passes over the arrays with which a step takes this time.
/// @param several passes of a second trial @param timed runs a step of so many passes, and returns its
/// seconds
inline int passes_for(double seconds, int several, const std::function<double(int)>& timed) {
    const double limit = 1e6;
    const auto whole = [&](double passes) {
        return static_cast<int>(std::min(limit, std::max(1.0, passes + 0.5)));
    };
    const double one = timed(1);
    const double pass = std::max(1e-7, (timed(several) - one) / (several - 1));
    int passes = whole((seconds - (one - pass)) / pass);
    // Passes of a few microseconds do not predict the time of hundreds of them, so the step itself decides.
    for (int round = 0; round < 5; ++round) {
        const double took = timed(passes);
        const int better = whole(passes * seconds / took);
        if (std::abs(took / seconds - 1) < 0.1 || better == passes) break;
        passes = better;
    }
    return passes;
}

}  // namespace tenken
