// What computes on one process's columns of the matrix: the host, every format emulated, or a GPU.
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

/// What the products of the update are made of. Sums are FP32 always.
enum class Low { fp16, bf16, fp8 };

inline tenken::Format format_of(Low low) {
    return low == Low::fp16   ? tenken::formats::fp16()
           : low == Low::bf16 ? tenken::formats::bf16()
                              : tenken::formats::e4m3();
}

/// Operands of the update are multiplied by powers of two: elements of U are at most about 1 and become 64,
/// in the upper part of the range of every format; those of L are smaller by the diagonal.
constexpr double scale_u = 128;
inline double scale_l(double diagonal) {
    return scale_u * std::ldexp(1.0, static_cast<int>(std::lround(std::log2(diagonal))));
}

/// What tests break on purpose, in the middle of the factorisation.
enum class Broken {
    none,
    skip_updates,  ///< no trailing update at all
    skip_update,   ///< one is left out
    zero_l,        ///< one panel of L is zero below its diagonal block
    lost_tile      ///< one square tile of one update is not written
};

/// What became of the operands of the update.
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

/// Columns are dealt out over 1 x Q processes; every process has all rows of its columns, in FP32 and column
/// after column. N is padded with the identity to a multiple of tile(). What the steps have to say of pivots
/// and of several process rows is empty here.
class Engine : public lu::Stepper {
  public:
    /// The width that all steps are a multiple of, and of the groups of verification.
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
    /// b - A x in double precision, rows [begin, end), A made anew. @param sums of |a| of each row, if not
    /// null
    virtual std::vector<double> residual(const Matrix& matrix, const std::vector<double>& x,
                                         std::int64_t begin, std::int64_t end, std::vector<double>* sums) = 0;

    virtual Conversions conversions() = 0;
    /// The same in every process.
    virtual FactorError factor_error(const Matrix& matrix, lu::Ranks& ranks) = 0;
    /// The bound of one row and group as the last factor_error() has found it, in every process.
    virtual double bound_at(std::int64_t row, std::int64_t group) = 0;
    /// Adds to an element of the factors, in the process that has it.
    virtual void spoil(std::int64_t row, std::int64_t column, double change) = 0;

    /// Seconds of each of several products like the first update, `heat_seconds` after others; spoils the
    /// matrix.
    virtual std::vector<double> time_products(const Matrix& matrix, double heat_seconds, int repetitions,
                                              double& flops) = 0;
    virtual void describe(tenken::Document& document) const = 0;
};

/// How far sums of A - LU over a group of columns may be off (docs/hpl_mxp.md derives it).
struct FactorBound {
    double low;      ///< unit roundoff of the update's operands
    double panel;    ///< that of the panel's and the triangular solve's
    double updates;  ///< how often an element is added to, at most
    double diagonal;
    double width;  ///< of a group

    /// @param squares_low, squares_panel sums of (l u)^2 of what goes through the one and the other
    MXP_BOTH double of(double squares_low, double squares_panel, bool on_diagonal) const {
        constexpr double deviations = 8;
        const double single = 1.0 / 8388608;  // 2^-23: FP32, cut off
        return deviations * (low * sqrt(squares_low) + panel * sqrt(squares_panel)) +
               single * (updates + 8) * (sqrt(width) + (on_diagonal ? diagonal : 0.0));
    }
};

}  // namespace mxp
