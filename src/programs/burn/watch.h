// A process that watches the computing one: it reports progress, and detects that it hangs or has ended.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace burn {

/// The progress of one GPU or the host, in memory that both processes share.
struct Beat {
    std::atomic<double> last;  ///< now_seconds() of the last sign of life; 0: has not begun or has ended
    std::atomic<std::uint64_t> visits;
    std::atomic<std::uint64_t> steps;  ///< of all visits
    std::atomic<std::uint64_t> wrong;
    char subject[16];
    char phase[24];
    char sensors[96];
};

struct Board {
    static constexpr int max_places = 72;
    std::atomic<double> begin;           ///< now_seconds() when the first phase began
    std::atomic<double> silent_seconds;  ///< without a sign of life, a GPU is hung
    std::atomic<double> report_seconds;
    std::atomic<int> places;
    Beat beats[max_places];

    /// In memory that is shared with processes forked later. @throws std::runtime_error
    static Board* shared();
    /// One line: seconds, and each place with its phase, steps, wrong results and sensors.
    std::string line() const;
};

/// How a watched process ended.
struct Ending {
    int status = 0;      ///< exit status, if it ended by itself
    std::string reason;  ///< otherwise why: hung, or ended by a signal
};

/// Waits for a process; prints a line each report_seconds; ends it if a place is silent for too long. SIGTERM
/// and SIGINT are passed on.
Ending watch(pid_t process, const Board& board);

}  // namespace burn
