// Warm-up, new data, timed part: what is verified afterwards can only come from a timed run.
#pragma once

#include <vector>

#include "lib/base/clock.h"

namespace tenken {

/// @param renew writes other sources, or clears the destinations, after the warm-up
/// @param launch is the same in the warm-up and in the timed part
/// @return seconds of each timed run by the host clock, in the order measured
template <typename Renew, typename Launch>
std::vector<double> timed_anew(double warmup_seconds, long repetitions, const Renew& renew,
                               const Launch& launch) {
    warm_up(warmup_seconds, launch);
    renew();
    return time_each(repetitions, launch);
}

}  // namespace tenken
