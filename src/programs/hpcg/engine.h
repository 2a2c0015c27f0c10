// The solver of one rank, in the given order or in its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "programs/hpcg/grid.h"

namespace hpcg {

/// The current phase of a solver; none between solutions.
enum class Phase { none, dot, vectors, product, cycle };
constexpr int phases = 5;

/// Seconds of the phases reported by HPCG, summed over the calls since they were cleared.
struct PhaseSeconds {
    double dot = 0;      ///< sums over rows and over ranks
    double vectors = 0;  ///< p, x and r
    double product = 0;  ///< A p, with p A p where that is fused
    double cycle = 0;    ///< multigrid, with r z where that is fused
    void add(Phase phase, double seconds) {
        double none = 0;
        double* const sums[phases] = {&none, &dot, &vectors, &product, &cycle};
        *sums[static_cast<int>(phase)] += seconds;
    }
};

/// Minimum number of bytes moved by one iteration if vectors do not stay in caches, by phase.
struct PhaseBytes {
    double vectors = 0;
    double product = 0;
    double cycle = 0;
    double matrix = 0;  ///< of the finest level only, part of `product`
    double total() const { return vectors + product + cycle; }
};

enum class Vector { x, b, r, z, p, product, first, second, third };

class Engine {
  public:
    virtual ~Engine() = default;

    // The steps of conjugate gradients. All of them may return before the work is complete.
    /// x = 0, p = x, r = b - A p.
    virtual void begin() = 0;
    /// z = M r, or r; and r z of iteration `k`, counted from 1.
    virtual void precondition(int k, bool with_multigrid) = 0;
    /// p = z + beta p.
    virtual void direction(int k) = 0;
    /// A p and p A p.
    virtual void multiply() = 0;
    /// x and r, and r r.
    virtual void advance(int k) = 0;
    /// The square root of r r. Waits.
    virtual double norm() = 0;

    // For the tests of validity.
    /// Numbers from 1 to 2 by the seed and each row's global number.
    virtual void fill_random(Vector to, std::uint64_t seed) = 0;
    virtual void fill(Vector to, double value) = 0;
    virtual void product_of(Vector from, Vector to) = 0;
    virtual void cycle_of(Vector from, Vector to) = 0;
    virtual double dot(Vector a, Vector b) = 0;
    /// Multiplies the diagonal and b for HPCG's spectral test, or restores them.
    virtual void exaggerate_diagonal(bool on) = 0;
    /// |b - A x|, recomputed.
    virtual double residual_of_x() = 0;
    /// The maximum difference of x from 1, the solution of the system.
    virtual double worst_error() = 0;
    /// For --inject-fault: flips a bit of one value of the matrix (only one of a symmetric pair).
    virtual void spoil_value() = 0;
    /// For --inject-fault: halo values arrive wrong from now on.
    virtual void spoil_halo() = 0;
    virtual void spoil_x() = 0;

    /// Clears the phases' times.
    virtual void clear_times() = 0;
    /// Waits, and gives them.
    virtual PhaseSeconds times() = 0;
    /// Minimum number of bytes moved by one iteration.
    virtual PhaseBytes bytes() const = 0;
    /// Further information for the document, as key and value.
    virtual std::vector<std::pair<std::string, std::string>> facts() const = 0;
};

}  // namespace hpcg
