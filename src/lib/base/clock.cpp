#include "lib/base/clock.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

namespace tenken {

double now_seconds() {
    using Clock = std::chrono::steady_clock;
    // Counted from the first call, so that a double can represent nanoseconds.
    static const Clock::time_point origin = Clock::now();
    return std::chrono::duration<double>(Clock::now() - origin).count();
}

double clock_resolution_seconds() {
    double smallest = 1;
    for (int i = 0; i < 100; ++i) {
        const double start = now_seconds();
        double end = start;
        while (end == start) end = now_seconds();
        smallest = std::min(smallest, end - start);
    }
    return smallest;
}

std::string utc_now() {
    using namespace std::chrono;
    const auto since_epoch = system_clock::now().time_since_epoch();
    const auto milliseconds = duration_cast<std::chrono::milliseconds>(since_epoch).count();
    const std::time_t seconds = static_cast<std::time_t>(milliseconds / 1000);
    std::tm parts;
    gmtime_r(&seconds, &parts);
    char date[32];
    std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
    char text[48];
    std::snprintf(text, sizeof text, "%s.%03dZ", date, static_cast<int>(milliseconds % 1000));
    return text;
}

std::vector<double> giga_per_second(double amount, const std::vector<double>& seconds) {
    std::vector<double> rates(seconds);
    for (double& value : rates) value = amount / value / 1e9;
    return rates;
}

}  // namespace tenken
