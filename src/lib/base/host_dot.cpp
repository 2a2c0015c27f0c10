#include "lib/base/host_dot.h"

#include <algorithm>
#include <stdexcept>

#include "lib/base/clock.h"

namespace tenken {

namespace {

/// The sum over one share, in `lanes` independent partial sums.
double dot_of(const double* a, const double* b, std::size_t begin, std::size_t end) {
    constexpr std::size_t lanes = 32;
    double sums[lanes] = {};
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
        for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
    }
    double sum = 0;
    for (; i < end; ++i) sum += a[i] * b[i];
    for (double lane : sums) sum += lane;
    return sum;
}

}  // namespace

double dot_on_host(const HostArray& a, const HostArray& b) {
    double sum = 0;
    in_shares(a.size(), [&](std::size_t begin, std::size_t end) {
        const double mine = dot_of(a.data(), b.data(), begin, end);
#pragma omp atomic
        sum += mine;
    });
    return sum;
}

TimedDots time_dots_on_host(std::uint64_t cache_bytes, long repetitions, double warmup_seconds) {
    const std::uint64_t bytes = std::max<std::uint64_t>(2 * cache_bytes, std::uint64_t{64} << 20);
    HostArray a(bytes / sizeof(double));
    HostArray b(a.size());
    in_shares(a.size(), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) a[i] = b[i] = 1 + static_cast<double>(i % 1021) / 1024;
    });
    double sum = 0;
    const auto dot = [&] { sum += dot_on_host(a, b); };
    warm_up(warmup_seconds, dot);
    TimedDots timed = {time_each(repetitions, dot), 2.0 * static_cast<double>(a.bytes())};
    if (!(sum > 0)) throw std::runtime_error("the dot product of positive numbers is not positive");
    return timed;
}

}  // namespace tenken
