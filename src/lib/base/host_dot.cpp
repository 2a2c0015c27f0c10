#include "lib/base/host_dot.h"

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

}  // namespace tenken
