// What computes on one process's part of the matrix: the steps of the factorisation as the algorithm
// (lib/lu/factor.cpp) asks for them, done by a GPU or by the host.
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

/// Rows are eliminated with the largest pivot of their column. A panel that was factorised lies in one of two
/// slots, with the permutation of rows that it brings.
class Engine : public lu::Stepper {
  public:
    virtual const Layout& layout() const = 0;
    const lu::Distribution& distribution() const override { return layout(); }
    std::int64_t end_of_columns() const override { return layout().padded_columns; }
    /// Writes this process's part of the matrix, with zeros in the padding.
    virtual void generate(const Matrix& matrix) = 0;

    /// Whether this engine hands the whole of A x = b to a library, in place of all of the above.
    virtual bool direct() const { return false; }
    /// Does so. @param spoil flips a bit of the factors. @return the first column without a pivot, or -1
    virtual std::int64_t solve_directly(bool spoil) {
        (void)spoil;
        return -1;
    }
    /// The largest |Ax - b|, the largest sum of |a| of a row, and the largest |b| over rows [begin, end), the
    /// matrix made anew; and the largest |x| of all.
    struct Norms {
        double r = 0;
        double a = 0;
        double b = 0;
        double x = 0;
        /// Takes one row; what is not a number stays.
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

    /// Seconds of each of several products like the first update of this factorisation, `heat_seconds` after
    /// others; spoils the matrix.
    virtual std::vector<double> time_products(double heat_seconds, int repetitions, double& flops) = 0;
    /// Seconds of the library's own factorisation of this matrix; empty with the reason where it has none.
    virtual std::vector<double> time_library(const Matrix& matrix, int repetitions, std::string& why_not) = 0;

    /// Says in the document what computed and how.
    virtual void describe(tenken::Document& document) const = 0;
};

}  // namespace hpl
