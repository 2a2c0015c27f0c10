// Computation on one process's part of the matrix: the steps of the factorisation as called by
// lib/lu/factor.cpp, executed by a GPU or by the host.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/document.h"
#include "lib/lu/factor.h"
#include "programs/hpl/layout.h"
#include "programs/hpl/matrix.h"

namespace hpl {

using lu::Lane;
using lu::Range;
using lu::Ranks;

/// Partial pivoting by the largest element of a column. A factorised panel is in one of two
/// slots, with its permutation of rows.
class Engine : public lu::Stepper {
  public:
    virtual const Layout& layout() const = 0;
    const lu::Distribution& distribution() const override { return layout(); }
    std::int64_t end_of_columns() const override { return layout().padded_columns; }
    /// Writes this process's part of the matrix, with zeros in the padding.
    virtual void generate(const Matrix& matrix) = 0;

    /// Whether this engine solves the whole of A x = b by a library, instead of the above.
    virtual bool direct() const { return false; }
    /// Does so. @param spoil flips a bit of the factors. @return the first column without a pivot, or -1
    virtual std::int64_t solve_directly(bool spoil) {
        (void)spoil;
        return -1;
    }
    /// The largest |Ax - b|, the largest sum of |a| of a row, and the largest |b| over rows [begin, end), the
    /// matrix regenerated; and the largest |x| of all.
    struct Norms {
        double r = 0;
        double a = 0;
        double b = 0;
        double x = 0;
        /// Adds one row; NaN persists.
        void add_row(double residual, double weight, double rhs) {
            r = larger(r, residual);
            a = larger(a, weight);
            b = larger(b, rhs);
        }
        static double larger(double maximum, double value) {
            const double size = std::fabs(value);
            return std::isnan(maximum) || size <= maximum ? maximum : size;
        }
    };
    virtual Norms norms(const Matrix& matrix, std::int64_t begin, std::int64_t end) = 0;
    virtual std::vector<double> solution() = 0;

    /// Seconds of each of several products of the shape of the first update, `heat_seconds` after
    /// others; overwrites the matrix.
    virtual std::vector<double> time_products(double heat_seconds, int repetitions, double& flops) = 0;
    /// Seconds of the library's own factorisation of this matrix; empty, with the reason, if it has none.
    virtual std::vector<double> time_library(const Matrix& matrix, int repetitions, std::string& why_not) = 0;

    /// Describes the computation in the document.
    virtual void describe(tenken::Document& document) const = 0;
};

}  // namespace hpl
