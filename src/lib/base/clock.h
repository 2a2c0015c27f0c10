// Host time: a steady clock for intervals, UTC for the document.
#pragma once

#include <string>
#include <vector>

namespace tenken {

/// Seconds of a steady clock since an arbitrary moment.
double now_seconds();

/// The smallest observed step of now_seconds(), in seconds (typically 2e-8 to 1e-6).
double clock_resolution_seconds();

/// The current time in the format of the document: 2026-11-21T09:06:00.123Z.
std::string utc_now();

/// Runs launch() until `seconds` of wall time have passed, and at least twice. It must be the same function
/// that is timed afterwards, so that clocks, caches and pages are in the state of the measurement.
/// @return number of runs
template <typename Launch>
long warm_up(double seconds, Launch&& launch) {
    const double start = now_seconds();
    long runs = 0;
    while (runs < 2 || now_seconds() - start < seconds) {
        launch();
        ++runs;
    }
    return runs;
}

/// Times each of `repetitions` runs of launch() by the host clock. @return seconds, in the order measured
template <typename Launch>
std::vector<double> time_each(long repetitions, Launch&& launch) {
    std::vector<double> seconds(static_cast<std::size_t>(repetitions));
    for (double& one : seconds) {
        const double start = now_seconds();
        launch();
        one = now_seconds() - start;
    }
    return seconds;
}

/// Rates from times: amount / seconds / 1e9 each, that is GB/s for bytes and GFLOP/s for operations.
std::vector<double> giga_per_second(double amount, const std::vector<double>& seconds);

}  // namespace tenken
