// Computation on one process's columns of the matrix: the host, with all formats emulated, or a GPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/document.h"
#include "lib/base/formats.h"
#include "lib/lu/factor.h"
#include "lib/lu/ranks.h"
#include "programs/hpl_mxp/matrix.h"

namespace mxp {

/// The operands of the update's products. Sums are always FP32.
enum class Low { fp16, bf16, fp8 };

inline tenken::Format format_of(Low low) {
    return low == Low::fp16   ? tenken::formats::fp16()
           : low == Low::bf16 ? tenken::formats::bf16()
                              : tenken::formats::e4m3();
}

/// Operands of the update are multiplied by powers of two. Elements of U are at most about 1 and become 64,
/// in the upper part of the range of every format; those of L are smaller by the diagonal.
constexpr double scale_u = 128;
inline double scale_l(double diagonal) {
    return scale_u * std::ldexp(1.0, static_cast<int>(std::lround(std::log2(diagonal))));
}

/// Faults injected by tests in the middle of the factorisation.
enum class Broken {
    none,
    skip_updates,  ///< no trailing update at all
    skip_update,   ///< one is omitted
    zero_l,        ///< one panel of L is zero below its diagonal block
    lost_tile      ///< one square tile of one update is not written
};

/// Statistics of the operands of the update.
struct Conversions {
    double all = 0;
    double small = 0;       ///< zero or below the format's normal range
    double overflowed = 0;  ///< not finite, or beyond the largest finite number
};

/// A - LU, columns added up in groups with signs: the largest error over its bound, and where.
struct FactorError {
    double ratio = 0;
    std::int64_t row = -1;
    std::int64_t group = -1;
    double bound = 0;  ///< there
};

/// Columns are distributed over 1 x Q processes; every process has all rows of its columns, in FP32 and
/// column-major. N is padded with the identity to a multiple of tile(). The steps for pivots
/// and for several process rows are empty here.
class Engine : public lu::Stepper {
  public:
    /// Divisor of the widths of all steps and of the groups of the verification.
    virtual std::int64_t tile() const = 0;
    /// Writes this process's part of A in FP32, with the identity in the padding.
    virtual void generate(const Matrix& matrix) = 0;
    virtual void breaks(Broken broken, const lu::Step& at) = 0;

    void load_panel(int, const lu::Step&) override {}
    void sum_panel(int, const lu::Step&) override {}
    void spoil_panel(int, const lu::Step&) override {}
    void swap_rows(lu::Lane, int, const lu::Step&, lu::Range) override {}
    /// Refinement comes later, by refine().
    void solve(lu::Ranks&) override {}

    /// d = U^-1 L^-1 r by the factors, in FP32; r and d have `n` elements in every process.
    virtual std::vector<double> correction(lu::Ranks& ranks, const std::vector<double>& r) = 0;
    /// b - A x in double precision, rows [begin, end), A regenerated. @param sums of |a| of each row, if not
    /// null
    virtual std::vector<double> residual(const Matrix& matrix, const std::vector<double>& x,
                                         std::int64_t begin, std::int64_t end, std::vector<double>* sums) = 0;

    virtual Conversions conversions() = 0;
    /// The same in every process.
    virtual FactorError factor_error(const Matrix& matrix, lu::Ranks& ranks) = 0;
    /// The bound of one row and group from the last factor_error(), in every process.
    virtual double bound_at(std::int64_t row, std::int64_t group) = 0;
    /// Adds to an element of the factors, in the process that has it.
    virtual void spoil(std::int64_t row, std::int64_t column, double change) = 0;

    /// Seconds of each of several products like the first update, `heat_seconds` after others; spoils the
    /// matrix.
    virtual std::vector<double> time_products(const Matrix& matrix, double heat_seconds, int repetitions,
                                              double& flops) = 0;
    virtual void describe(tenken::Document& document) const = 0;
};

/// Error bound of sums of A - LU over a group of columns (derived in docs/hpl_mxp.md).
struct FactorBound {
    double low;      ///< unit roundoff of the update's operands
    double panel;    ///< that of the panel's and the triangular solve's
    double updates;  ///< maximum number of additions to an element
    double diagonal;
    double width;  ///< of a group

    /// @param squares_low, squares_panel sums of (l u)^2 of the products in the two formats
    MXP_BOTH double of(double squares_low, double squares_panel, bool on_diagonal) const {
        constexpr double deviations = 8;
        const double single = 1.0 / 8388608;  // 2^-23: FP32, truncated
        return deviations * (low * sqrt(squares_low) + panel * sqrt(squares_panel)) +
               single * (updates + 8) * (sqrt(width) + (on_diagonal ? diagonal : 0.0));
    }
};

}  // namespace mxp
