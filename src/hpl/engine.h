// What computes on one process's part of the matrix: the steps of the factorisation as the algorithm
// (factor.cpp) asks for them, done by a GPU or by the host.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/document.h"
#include "hpl/layout.h"
#include "hpl/matrix.h"
#include "hpl/ranks.h"

namespace hpl {

/// Two queues of work. What is asked of one lane happens in order; lanes go on beside each other where the
/// engine can (a GPU), else everything happens at once, which is an order too.
enum class Lane { update, panel };

/// Local columns [begin, end), of this process.
struct Range {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t size() const { return end - begin; }
    bool empty() const { return end <= begin; }
};

/// Rows are eliminated with the largest pivot of their column. A panel that was factorised lies in one of two
/// slots, with the permutation of rows that it brings.
class Engine {
  public:
    virtual ~Engine() = default;

    virtual const Layout& layout() const = 0;
    /// Writes this process's part of the matrix, with zeros in the padding.
    virtual void generate(const Matrix& matrix) = 0;

    /// Panel lane: copies the columns of `step`, rows from step.begin on, into a slot. Where the rows are on
    /// several processes, those of others are zero.
    virtual void load_panel(int slot, const Step& step) = 0;
    /// Panel lane: adds up the slots of a process column, so that one of them has the whole panel.
    virtual void sum_panel(int slot, const Step& step) = 0;
    /// Panel lane: factorises a slot that holds the whole panel.
    virtual void factor_panel(int slot, const Step& step) = 0;
    /// Panel lane: gives panel and permutation of `root` to all.
    virtual void broadcast_panel(int slot, const Step& step, int root) = 0;
    /// Panel lane: makes ready what the updates need besides (inverses, own rows), and puts the panel's rows
    /// of U where solve() looks for them.
    virtual void ready_panel(int slot, const Step& step) = 0;
    /// For --inject-fault: flips one bit of one element of the panel.
    virtual void spoil_panel(int slot, const Step& step) = 0;

    /// Swaps the rows of these columns as the panel wants it.
    virtual void swap_rows(Lane lane, int slot, const Step& step, Range columns) = 0;
    /// Makes them rows of U by the panel's triangle.
    virtual void solve_rows(Lane lane, int slot, const Step& step, Range columns) = 0;
    /// Takes L U from the rows below.
    virtual void multiply(Lane lane, int slot, const Step& step, Range columns) = 0;

    /// Remembers the point that a lane has reached, for wait() of the other lane. There are `marks` of them.
    static constexpr int marks = 4;
    virtual void mark(Lane lane, int which) = 0;
    virtual void wait(Lane lane, int which) = 0;
    /// A point of time in a lane. @return its number, for seconds_between() after finish()
    virtual int stamp(Lane lane) = 0;
    virtual double seconds_between(int earlier, int later) = 0;
    virtual void forget_stamps() = 0;
    /// Waits until both lanes are empty. @return the first column without a pivot, -1 where there is none
    virtual std::int64_t finish() = 0;

    /// Solves U x = y by blocks of at most a step, after finish(). All processes have the whole x then.
    virtual void solve(Ranks& ranks) = 0;
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
        static double larger(double most, double value) {
            const double size = std::fabs(value);
            return std::isnan(most) || size <= most ? most : size;
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
