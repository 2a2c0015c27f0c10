#include "programs/hpl_mxp/refine.h"

#include <algorithm>
#include <limits>

#include "lib/base/clock.h"
#include "lib/lu/residual.h"

namespace mxp {

namespace {

double largest_of(const std::vector<double>& values) {
    double largest = 0;
    for (double value : values) {
        const double size = std::fabs(value);
        if (!(size <= largest))
            largest = std::isfinite(size) ? size : std::numeric_limits<double>::infinity();
    }
    return largest;
}

}  // namespace

Refined refine(Engine& engine, lu::Ranks& ranks, const Matrix& matrix, double target, int maximum) {
    const auto n = static_cast<std::size_t>(matrix.n);
    const lu::Range rows = lu::rows_of_rank(matrix.n, ranks);
    std::vector<double> r(n);
    for (std::size_t i = 0; i < n; ++i) r[i] = matrix.rhs(static_cast<std::int64_t>(i));
    const double norm_b = largest_of(r);
    std::vector<double> x(n, 0.0);
    double norm_a = 0;
    Refined done;
    for (;;) {
        const double start = tenken::now_seconds();
        const std::vector<double> d = engine.correction(ranks, r);
        for (std::size_t i = 0; i < n; ++i) x[i] += d[i];
        const double corrected = tenken::now_seconds();
        std::vector<double> sums;
        const std::vector<double> mine =
            engine.residual(matrix, x, rows.begin, rows.end, norm_a == 0 ? &sums : nullptr);
        if (norm_a == 0) norm_a = ranks.largest({largest_of(sums)}).front();
        std::fill(r.begin(), r.end(), 0.0);
        std::copy(mine.begin(), mine.end(), r.begin() + rows.begin);
        if (ranks.size() > 1) ranks.sum_in_row(r.data(), n);
        done.correction_seconds += corrected - start;
        done.residual_seconds += tenken::now_seconds() - corrected;
        const double scaled = lu::scaled_residual(largest_of(r), norm_a, largest_of(x), norm_b, matrix.n);
        const bool stuck = !done.history.empty() && !(scaled < done.scaled);
        done.scaled = scaled;
        done.history.push_back(scaled);
        if (scaled <= target || stuck || done.refinements >= maximum || !std::isfinite(scaled)) return done;
        ++done.refinements;
    }
}

}  // namespace mxp
