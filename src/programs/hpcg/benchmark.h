// HPCG 3.1's phases and validity tests, for any engine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "catalogue/hpcg.h"
#include "programs/hpcg/backend.h"
#include "programs/hpcg/engine.h"
#include "programs/hpcg/grid.h"

namespace hpcg {

constexpr int reference_iterations = 50;
/// Seconds of a run that counts as official.
constexpr double official_seconds = 1800;

struct Solution {
    int iterations = 0;
    double first_norm = 0;
    double norm = 0;
    double scaled() const { return norm / first_norm; }
};

/// Conjugate gradients from x = 0 until the norm of the residual is reduced by `tolerance`; with tolerance
/// 0 all iterations are executed and the host never waits for a number in between.
/// @param each_time called in every iteration
Solution conjugate_gradients(Engine& engine, int max_iterations, double tolerance, bool with_multigrid,
                             const std::function<void()>& each_time = nullptr);

/// Multiplies the diagonal so that conjugate gradients must converge within 12 iterations without and 2 with
/// multigrid.
struct SpectralTest {
    static constexpr int max_plain = static_cast<int>(catalogue::spectral().tolerance);
    static constexpr int max_preconditioned = static_cast<int>(catalogue::spectral_multigrid().tolerance);
    int plain = 0;
    int preconditioned = 0;
};
SpectralTest test_spectrum(Engine& engine);

/// |x'Ay - y'Ax| and |x'My - y'Mx| over 2 |x| |A| |y| eps, with |A| = 52; at most 1 each.
struct SymmetryTest {
    double product = 0;
    double cycle = 0;
};
SymmetryTest test_symmetry(Engine& engine);

/// Mean and variance of the scaled residuals of all sets (at least one); a variance below 10^-6 passes.
struct NormsTest {
    double mean = 0;
    double variance = 0;
};
NormsTest test_norms(const std::vector<double>& scaled);

/// The operations counted by HPCG, independent of those executed.
struct Operations {
    double dot = 0;
    double vectors = 0;
    double product = 0;
    double cycle = 0;
    double total() const { return dot + vectors + product + cycle; }
};
Operations count_operations(const std::vector<Totals>& totals, double sets, double iterations_of_set);

/// Bytes read and written according to HPCG's model.
struct Traffic {
    double read = 0;
    double written = 0;
};
Traffic model_traffic(const std::vector<Totals>& totals, double sets, double iterations_of_set);

/// The complete outcome of a run.
struct Outcome {
    int ranks = 1;
    int threads = 1;
    std::array<int, 3> shape = {1, 1, 1};
    std::array<int, 3> local = {0, 0, 0};
    std::vector<Totals> totals;
    double setup_seconds = 0;
    double optimise_seconds = 0;
    double reference_seconds = 0;  ///< of one product and one cycle in the given order
    double reference_scaled = 0;   ///< residual after 50 iterations in the given order
    SpectralTest spectrum;
    SymmetryTest symmetry;
    NormsTest norms;
    int iterations = 0;         ///< of each timed set
    int needed_iterations = 0;  ///< to reach the reference's residual
    bool converged = false;
    std::vector<double> set_seconds;
    double total_seconds = 0;
    PhaseSeconds phases;
    double reduce_min = 0;  ///< over ranks, of the phase dot
    double reduce_max = 0;
    double reduce_mean = 0;
    std::vector<std::uint64_t> level_bytes;

    double sets() const { return static_cast<double>(set_seconds.size()); }
    Operations operations() const { return count_operations(totals, sets(), iterations); }
    double with_convergence() const { return operations().total() * reference_iterations / iterations; }
    /// The time of the sets, and a tenth of the setup time for each.
    double rated_seconds() const { return total_seconds + sets() * (optimise_seconds + setup_seconds) / 10; }
    double rating() const { return with_convergence() / rated_seconds() / 1e9; }
    bool valid() const;
};

/// The report in HPCG's own form, lines of KEY=VALUE.
std::string report_text(const Outcome& outcome);

}  // namespace hpcg
