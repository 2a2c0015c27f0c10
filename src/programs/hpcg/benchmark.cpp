#include "programs/hpcg/benchmark.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace hpcg {

Solution conjugate_gradients(Engine& engine, int max_iterations, double tolerance, bool with_multigrid,
                             const std::function<void()>& each_time) {
    Solution solution;
    engine.begin();
    solution.first_norm = solution.norm = engine.norm();
    int k = 0;
    while (k < max_iterations && (tolerance <= 0 || solution.norm > tolerance * solution.first_norm)) {
        ++k;
        if (each_time) each_time();
        engine.precondition(k, with_multigrid);
        engine.direction(k);
        engine.multiply();
        engine.advance(k);
        if (tolerance > 0) solution.norm = engine.norm();
    }
    solution.norm = engine.norm();
    solution.iterations = k;
    return solution;
}

SpectralTest test_spectrum(Engine& engine) {
    constexpr double tolerance = 1e-12;
    constexpr int maximum = 50;
    SpectralTest test;
    engine.exaggerate_diagonal(true);
    for (int repetition = 0; repetition < 2; ++repetition) {
        test.plain = std::max(test.plain, conjugate_gradients(engine, maximum, tolerance, false).iterations);
        test.preconditioned =
            std::max(test.preconditioned, conjugate_gradients(engine, maximum, tolerance, true).iterations);
    }
    engine.exaggerate_diagonal(false);
    return test;
}

SymmetryTest test_symmetry(Engine& engine) {
    constexpr double norm_of_matrix = 2 * 26.0;
    engine.fill_random(Vector::first, 1);
    engine.fill_random(Vector::second, 2);
    const double x = std::sqrt(engine.dot(Vector::first, Vector::first));
    const double y = std::sqrt(engine.dot(Vector::second, Vector::second));
    const double unit = 2 * x * norm_of_matrix * y * DBL_EPSILON;
    const auto departure = [&](const std::function<void(Vector)>& apply) {
        apply(Vector::second);
        const double forth = engine.dot(Vector::first, Vector::third);
        apply(Vector::first);
        const double back = engine.dot(Vector::second, Vector::third);
        return std::fabs(forth - back) / unit;
    };
    SymmetryTest test;
    test.product = departure([&](Vector from) { engine.product_of(from, Vector::third); });
    test.cycle = departure([&](Vector from) { engine.cycle_of(from, Vector::third); });
    return test;
}

NormsTest test_norms(const std::vector<double>& scaled) {
    NormsTest test;
    const auto count = static_cast<double>(scaled.size());
    // From the first on: the mean of equal values, summed as they are, may differ from them by a rounding.
    double shift = 0;
    for (double value : scaled) shift += (value - scaled[0]) / count;
    for (double value : scaled) {
        const double deviation = value - scaled[0] - shift;
        test.variance += deviation * deviation / count;
    }
    test.mean = scaled[0] + shift;
    return test;
}

Operations count_operations(const std::vector<Totals>& totals, double sets, double iterations_of_set) {
    const double iterations = sets * iterations_of_set;
    Operations count;
    count.dot = count.vectors = (3 * iterations + sets) * 2 * totals[0].rows;
    count.product = (iterations + sets) * 2 * totals[0].entries;
    for (std::size_t level = 0; level < totals.size(); ++level) {
        // Two symmetric sweeps and a residual; on the coarsest level one symmetric sweep.
        count.cycle += iterations * (level + 1 < totals.size() ? 10 : 4) * totals[level].entries;
    }
    return count;
}

Traffic model_traffic(const std::vector<Totals>& totals, double sets, double iterations_of_set) {
    const double iterations = sets * iterations_of_set;
    const double rows = totals[0].rows;
    const double entry = sizeof(double) + sizeof(int);
    const double number = sizeof(double);
    const double vectors = 3 * iterations + sets;
    Traffic traffic;
    traffic.read =
        vectors * 4 * rows * number + (iterations + sets) * (totals[0].entries * entry + rows * number);
    traffic.written = vectors * (number + rows * number) + (iterations + sets) * rows * number;
    for (std::size_t level = 0; level < totals.size(); ++level) {
        const double sweep = 2 * totals[level].entries * entry + totals[level].rows * number;
        if (level + 1 == totals.size()) {
            traffic.read += iterations * sweep;
            traffic.written += iterations * totals[level].rows * number;
        } else {
            traffic.read +=
                iterations * (2 * sweep + totals[level].entries * entry + totals[level].rows * number);
            // HPCG's model counts one written number for each entry in residual and post-smoothing.
            traffic.written += iterations * (totals[level].rows + 2 * totals[level].entries) * number;
        }
    }
    return traffic;
}

bool Outcome::valid() const {
    return spectrum.plain <= SpectralTest::max_plain &&
           spectrum.preconditioned <= SpectralTest::max_preconditioned && symmetry.product <= 1 &&
           symmetry.cycle <= 1 && norms.variance < 1e-6 && converged;
}

}  // namespace hpcg
