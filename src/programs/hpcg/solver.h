// Conjugate gradients with multigrid on one Runner: common part of the solver in the given order and the
// optimised one.
#pragma once

#include <cmath>
#include <stdexcept>
#include <vector>

#include "programs/hpcg/engine.h"
#include "programs/hpcg/layout.h"
#include "programs/hpcg/problem.h"
#include "programs/hpcg/sweeps.h"

namespace hpcg {

/// Positions of CG's sums among the scalars of a Runner.
enum Scalar { rz_even, rz_odd, p_ap, r_r, any_sum, scalars };

/// Common to both orders: the vectors of CG, and everything except the product and the multigrid
/// cycle.
template <typename Runner>
class Solver : public Engine {
  public:
    template <typename T>
    using Array = typename Runner::template Array<T>;

    void begin() override {
        runner_.mark(Phase::vectors);
        runner_.each(elements_, FillDoubles{x_.data(), 0});
        runner_.each(elements_, CopyOf{x_.data(), p_.data()});
        multiply();
        runner_.mark(Phase::vectors);
        runner_.sum(elements_, Begin{b_.data(), product_.data(), r_.data()}, scalar(r_r));
        all_sum(r_r);
    }

    void direction(int k) override {
        runner_.mark(Phase::vectors);
        runner_.each_pair(
            elements_, Direction{z(), p_.data(), scalar(rz_of(k)), k == 1 ? nullptr : scalar(rz_of(k - 1))});
    }

    void advance(int k) override {
        runner_.mark(Phase::vectors);
        runner_.sum_pair(
            elements_,
            Advance{p_.data(), product_.data(), x_.data(), r_.data(), scalar(rz_of(k)), scalar(p_ap)},
            scalar(r_r));
        all_sum(r_r);
    }

    double norm() override {
        runner_.mark(Phase::none);
        return std::sqrt(runner_.fetch(scalar(r_r)));
    }

    void fill_random(Vector to, std::uint64_t seed) override {
        runner_.each(elements_, RandomOfRow{row_of(), problem_.levels[0].ids.data(), seed, vector(to)});
    }
    void fill(Vector to, double value) override { runner_.each(elements_, FillDoubles{vector(to), value}); }

    double dot(Vector a, Vector b) override {
        runner_.sum(elements_, DotOf{vector(a), vector(b)}, scalar(any_sum));
        all_sum(any_sum);
        return runner_.fetch(scalar(any_sum));
    }

    void exaggerate_diagonal(bool on) override {
        const ProblemLevel<Runner>& given = problem_.levels[0];
        if (on) {
            runner_.each(elements_, Exaggerate{row_of(), given.ids.data(), diagonal(), b_.data()});
        } else {
            runner_.each(elements_, GivenDiagonal{row_of(), given.diagonal.data(), diagonal()});
            runner_.each(elements_, RightHandSide{given.rows, row_of(), b_.data()});
        }
    }

    void product_of(Vector from, Vector to) override {
        copy(vector(from), p_.data());
        multiply();
        copy(product_.data(), vector(to));
    }
    void cycle_of(Vector from, Vector to) override {
        copy(vector(from), r_.data());
        precondition(1, true);
        copy(z(), vector(to));
    }

    double residual_of_x() override {
        copy(x_.data(), p_.data());
        multiply();
        runner_.sum(elements_, Begin{b_.data(), product_.data(), r_.data()}, scalar(r_r));
        all_sum(r_r);
        return norm();
    }

    double worst_error() override { return runner_.maximum(elements_, ErrorOfRow{row_of(), x_.data()}); }

    void spoil_x() override { runner_.each(1, SpoilDouble{x_.data() + elements_ - 1}); }
    void spoil_halo() override { spoil_halo_ = true; }

    void clear_times() override { runner_.clear_times(); }
    PhaseSeconds times() override { return runner_.times(); }

  protected:
    Solver(Runner& runner, const Problem<Runner>& problem, int elements, int halo)
        : runner_(runner),
          problem_(problem),
          elements_(elements),
          x_(make(elements)),
          b_(make(elements)),
          r_(make(elements)),
          p_(make(elements + halo)),
          product_(make(elements)),
          scalars_(runner.template make<double>(scalars)) {}

    virtual const int* row_of() const = 0;
    virtual double* diagonal() = 0;
    virtual double* z() = 0;

    Array<double> make(int count) { return runner_.template make<double>(static_cast<std::size_t>(count)); }
    double* scalar(int which) { return scalars_.data() + which; }
    static int rz_of(int k) { return k % 2 == 0 ? rz_even : rz_odd; }

    void all_sum(int which) {
        runner_.mark(Phase::dot);
        runner_.all_sum(scalar(which));
    }

    double* vector(Vector which) {
        switch (which) {
            case Vector::x:
                return x_.data();
            case Vector::b:
                return b_.data();
            case Vector::r:
                return r_.data();
            case Vector::z:
                return z();
            case Vector::p:
                return p_.data();
            case Vector::product:
                return product_.data();
            default:
                break;
        }
        // Only the validity tests need more, so a run without them must not allocate it.
        Array<double>& spare = spares_[static_cast<int>(which) - static_cast<int>(Vector::first)];
        if (spare.size() == 0) spare = make(elements_);
        return spare.data();
    }

    void copy(const double* from, double* to) { runner_.each(elements_, CopyOf{from, to}); }

    /// Gathers the data for other ranks, by the send positions.
    /// @param factor, correction as Pack
    void pack(const Halo& halo, const Array<int>& positions, Array<double>& buffer, const double* x,
              const double* correction, double factor) {
        runner_.each(halo.points, Pack{positions.data(), x, correction, spoil_halo_ ? 1.001 * factor : factor,
                                       buffer.data()});
    }

    /// The values of other ranks' points.
    void exchange(const Halo& halo, const Array<int>& positions, Array<double>& buffer, const double* x,
                  const double* correction, double factor, double* to) {
        if (halo.points == 0) return;
        pack(halo, positions, buffer, x, correction, factor);
        runner_.exchange(halo, buffer.data(), to);
    }

    Runner& runner_;
    const Problem<Runner>& problem_;
    int elements_;
    Array<double> x_;
    Array<double> b_;
    Array<double> r_;
    Array<double> p_;
    Array<double> product_;
    Array<double> scalars_;
    Array<double> spares_[3];
    bool spoil_halo_ = false;
};

// The solver in the given order, as in the reference of HPCG: rows in turn, each sweep over the whole
// matrix. Independent rows are processed concurrently, with the same result.

/// Entries of a row that are loaded together.
constexpr int entries_at_once = 9;

/// The sum of a row's entries times x, without the diagonal.
SPARSE_EVERYWHERE inline double sum_beside_diagonal(const Rows& rows, int row, const double* x) {
    const int length = rows.lengths[row];
    double sum = 0;
    for (int begin = 0; begin < length; begin += entries_at_once) {
        int columns[entries_at_once];
        double values[entries_at_once];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (int k = 0; k < entries_at_once; ++k) {
            const bool there = begin + k < length;
            columns[k] = there ? rows.columns[rows.at(row, begin + k)] : row;
            values[k] = there ? rows.values[rows.at(row, begin + k)] : 0;
        }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (int k = 0; k < entries_at_once; ++k) values[k] *= columns[k] == row ? 0 : x[columns[k]];
        for (int k = 0; k < entries_at_once; ++k) sum += values[k];
    }
    return sum;
}

struct GivenProduct {
    Rows rows;
    const double* x;
    double* out;
    const double* diagonal;  ///< may differ from that in `rows`
    SPARSE_EVERYWHERE double operator()(int row) const {
        const double sum = diagonal[row] * x[row] + sum_beside_diagonal(rows, row, x);
        out[row] = sum;
        return x[row] * sum;
    }
};

struct GivenSweep {
    Rows rows;
    const int* order;
    const double* r;
    const double* diagonal;
    double* x;
    SPARSE_EVERYWHERE void operator()(int place) const {
        const int row = order[place];
        x[row] = (r[row] - sum_beside_diagonal(rows, row, x)) / diagonal[row];
    }
};

struct GivenRestrict {
    const int* fine_of_coarse;
    const double* r;
    const double* product;
    double* coarse_r;
    SPARSE_EVERYWHERE void operator()(int row) const {
        coarse_r[row] = r[fine_of_coarse[row]] - product[fine_of_coarse[row]];
    }
};

struct GivenProlong {
    const int* fine_of_coarse;
    const double* coarse_x;
    double* x;
    SPARSE_EVERYWHERE void operator()(int row) const { x[fine_of_coarse[row]] += coarse_x[row]; }
};

template <typename Runner>
class GivenOrder : public Solver<Runner> {
    using Base = Solver<Runner>;
    using Base::runner_;
    template <typename T>
    using Array = typename Runner::template Array<T>;

  public:
    GivenOrder(Runner& runner, const Problem<Runner>& problem)
        : Base(runner, problem, problem.levels[0].rows.rows, problem.levels[0].halo.points) {
        for (std::size_t l = 0; l < problem.levels.size(); ++l) {
            const ProblemLevel<Runner>& given = problem.levels[l];
            Level level;
            level.level_sets =
                sparse::peel(runner_, given.rows, static_cast<sparse::Colour*>(nullptr), given.rows.rows);
            level.x = this->make(given.rows.rows + given.halo.points);
            if (l > 0) level.r = this->make(given.rows.rows);
            level.product = this->make(given.rows.rows);
            level.buffer = this->make(given.halo.points);
            levels_.push_back(std::move(level));
        }
        diagonal_ = this->make(problem.levels[0].rows.rows);
        this->copy(problem.levels[0].diagonal.data(), diagonal_.data());
        runner_.each(this->elements_, RightHandSide{problem.levels[0].rows, nullptr, this->b_.data()});
        runner_.synchronize();
    }

    void precondition(int k, bool with_multigrid) override {
        runner_.mark(Phase::cycle);
        if (with_multigrid) {
            cycle(0, this->r_.data());
        } else {
            this->copy(this->r_.data(), z());
        }
        runner_.mark(Phase::dot);
        runner_.sum(this->elements_, DotOf{this->r_.data(), z()}, this->scalar(Base::rz_of(k)));
        this->all_sum(Base::rz_of(k));
    }

    void multiply() override {
        runner_.mark(Phase::product);
        halo_of(0, this->p_.data());
        runner_.sum(this->elements_,
                    GivenProduct{this->problem_.levels[0].rows, this->p_.data(), this->product_.data(),
                                 diagonal_.data()},
                    this->scalar(p_ap));
        this->all_sum(p_ap);
    }

    void spoil_value() override {}
    PhaseBytes bytes() const override { return {}; }
    std::vector<std::pair<std::string, std::string>> facts() const override {
        return {{"given_order.level_sets", std::to_string(levels_[0].level_sets.begins.size() - 1)}};
    }

  protected:
    const int* row_of() const override { return nullptr; }
    double* diagonal() override { return diagonal_.data(); }
    double* z() override { return levels_[0].x.data(); }

  private:
    struct Level {
        sparse::LevelSets<Runner> level_sets;
        Array<double> x;
        Array<double> r;
        Array<double> product;
        Array<double> buffer;
    };

    void halo_of(std::size_t l, double* x) {
        const ProblemLevel<Runner>& given = this->problem_.levels[l];
        this->exchange(given.halo, given.rows_to_send, levels_[l].buffer, x, nullptr, 1, x + given.rows.rows);
    }

    const double* diagonal_of(std::size_t l) const {
        return l == 0 ? diagonal_.data() : this->problem_.levels[l].diagonal.data();
    }

    void smooth(std::size_t l, const double* r) {
        Level& level = levels_[l];
        halo_of(l, level.x.data());
        const std::vector<int>& begins = level.level_sets.begins;
        const auto level_set = [&](std::size_t f) {
            runner_.each(begins[f + 1] - begins[f],
                         GivenSweep{this->problem_.levels[l].rows, level.level_sets.order.data() + begins[f],
                                    r, diagonal_of(l), level.x.data()});
        };
        for (std::size_t f = 0; f + 1 < begins.size(); ++f) level_set(f);
        for (std::size_t f = begins.size() - 1; f-- > 0;) level_set(f);
    }

    void cycle(std::size_t l, const double* r) {
        Level& level = levels_[l];
        const ProblemLevel<Runner>& given = this->problem_.levels[l];
        runner_.each(given.rows.rows + given.halo.points, FillDoubles{level.x.data(), 0});
        smooth(l, r);
        if (l + 1 == levels_.size()) return;
        halo_of(l, level.x.data());
        runner_.sum(given.rows.rows,
                    GivenProduct{given.rows, level.x.data(), level.product.data(), diagonal_of(l)},
                    this->scalar(any_sum));
        Level& coarse = levels_[l + 1];
        runner_.each(given.coarse_rows,
                     GivenRestrict{given.fine_of_coarse.data(), r, level.product.data(), coarse.r.data()});
        cycle(l + 1, coarse.r.data());
        runner_.each(given.coarse_rows,
                     GivenProlong{given.fine_of_coarse.data(), coarse.x.data(), level.x.data()});
        smooth(l, r);
    }

    std::vector<Level> levels_;
    Array<double> diagonal_;
};

/// The optimised solver: layout.h's order, sweeps.h's passes.
template <typename Runner>
class Optimised : public Solver<Runner> {
    using Base = Solver<Runner>;
    using Base::runner_;
    template <typename T>
    using Array = typename Runner::template Array<T>;
    using Matrix = typename Runner::Matrix;

  public:
    /// Builds the new layout of the problem.
    /// @param spoil_colour for --inject-fault
    static std::unique_ptr<Optimised> make_from(Runner& runner, const Problem<Runner>& problem,
                                                bool spoil_colour) {
        std::vector<Layout<Runner>> layouts;
        for (std::size_t l = 0; l < problem.levels.size(); ++l) {
            const ProblemLevel<Runner>& given = problem.levels[l];
            layouts.push_back(lay_out(runner, given.rows, given.halo.points, given.diagonal.data(),
                                      given.coarse_rows == 0 ? nullptr : given.fine_of_coarse.data(),
                                      given.coarse_rows, spoil_colour && l == 0));
        }
        return std::unique_ptr<Optimised>(new Optimised(runner, problem, std::move(layouts)));
    }

    void precondition(int k, bool with_multigrid) override {
        runner_.mark(Phase::cycle);
        const int rz = Base::rz_of(k);
        if (with_multigrid) {
            runner_.captured(captured_[k % 2], [&] { whole_cycle(this->scalar(rz)); });
        } else {
            this->copy(this->r_.data(), z());
            runner_.mark(Phase::dot);
            runner_.sum(this->elements_, DotOf{this->r_.data(), z()}, this->scalar(rz));
        }
        this->all_sum(rz);
    }

    void multiply() override {
        runner_.mark(Phase::product);
        Level& fine = levels_[0];
        const Halo& halo = this->problem_.levels[0].halo;
        const Layout<Runner>& layout = fine.layout;
        const Multiply<Matrix> multiply = {layout.lower(), layout.upper(), layout.diagonal.data(),
                                           this->p_.data(), this->product_.data()};
        // Rows that do not depend on other ranks are processed while their values arrive.
        if (halo.points > 0) {
            this->pack(halo, fine.send, fine.buffer, this->p_.data(), nullptr, 1);
            runner_.begin_exchange(halo, fine.buffer.data(), this->p_.data() + this->elements_);
        }
        runner_.begin_sum();
        runner_.sweep_sum(0, layout.inner_slices, layout.interleaved.data(), multiply);
        if (halo.points > 0) {
            runner_.end_exchange();
            runner_.sweep_sum(0, layout.slices() - layout.inner_slices,
                              layout.interleaved.data() + layout.inner_slices, multiply);
        }
        runner_.end_sum(this->scalar(p_ap));
        this->all_sum(p_ap);
    }

    void spoil_value() override {
        Layout<Runner>& layout = levels_[0].layout;
        runner_.each(1, SpoilEntry{layout.lower_values.data(), layout.lower_places / 2, layout.lower_places});
    }

    PhaseBytes bytes() const override {
        constexpr double number = sizeof(double);
        PhaseBytes bytes;
        const auto positions_of = [](const Layout<Runner>& layout) {
            return static_cast<double>(layout.positions);
        };
        const Layout<Runner>& fine = levels_[0].layout;
        const double all = positions_of(fine);
        // p: z, p, p; then x, x, p, r, r, A p
        bytes.vectors = 9 * number * all;
        // diagonal, p, A p
        bytes.matrix = fine.lower_bytes + fine.upper_bytes;
        bytes.product = bytes.matrix + 3 * number * all;
        for (std::size_t l = 0; l < levels_.size(); ++l) {
            const Layout<Runner>& layout = levels_[l].layout;
            const double rows = positions_of(layout);
            const double lower = layout.lower_bytes;
            const double upper = layout.upper_bytes;
            // Forward: r, diagonal, y written and read by later colours; backward: y, diagonal, x likewise,
            // q.
            bytes.cycle += lower + 4 * number * rows + upper + 4 * number * rows;
            if (l + 1 == levels_.size()) continue;
            const double coarse = static_cast<double>(this->problem_.levels[l].coarse_rows);
            // The lower part of coarse points, q once, what is found, and the correction written.
            bytes.cycle += number * rows + levels_[l].restriction.bytes() + 3 * number * coarse;
            // Forward: r, diagonal, q, y' written and read, t, the correction; backward: t, diagonal, x
            // twice.
            bytes.cycle += number * rows + lower + layout.coarse_bytes + 6 * number * rows + number * coarse +
                           upper + (l == 0 ? 5 : 4) * number * rows;
        }
        return bytes;
    }

    std::vector<std::pair<std::string, std::string>> facts() const override {
        std::string colours;
        double entries = 0;
        double places = 0;
        int clashes = 0;
        double listed = 0;
        for (const Level& level : levels_) {
            const Layout<Runner>& layout = level.layout;
            colours += (colours.empty() ? "" : ", ") + std::to_string(layout.colours());
            places += static_cast<double>(layout.lower_places + layout.upper_places);
            clashes += layout.clashes;
            listed += static_cast<double>(layout.listed_slots);
        }
        for (const Box& box : this->problem_.boxes) {
            double mine = 1;
            for (int n : box.n) mine *= 3.0 * n - 2;
            entries += mine - box.rows();
        }
        std::vector<std::pair<std::string, std::string>> facts = {
            {"colours", colours},
            {"places_an_entry", std::to_string(places / entries)},
            {"colour_clashes", std::to_string(clashes)}};
        if (listed >= 0) {
            facts.emplace_back("slots_listing_columns", std::to_string(listed * Runner::height / places));
        }
        return facts;
    }

    const Layout<Runner>& layout(std::size_t level) const { return levels_[level].layout; }

  protected:
    const int* row_of() const override { return levels_[0].layout.row_of_position.data(); }
    double* diagonal() override { return levels_[0].layout.diagonal.data(); }
    double* z() override { return levels_[0].x.data(); }

  private:
    struct Level {
        Layout<Runner> layout;
        Array<double> r;  ///< on coarser levels
        Array<double> x;
        Array<double> y;  ///< halo behind it
        Array<double> t;
        Array<double> correction;  ///< zero but in coarse points
        Array<int> fine_positions;
        Array<int> coarse_positions;
        Restriction<Runner> restriction;
        Array<int> send;
        Array<double> buffer;
    };

    Optimised(Runner& runner, const Problem<Runner>& problem, std::vector<Layout<Runner>> layouts)
        : Base(runner, problem, layouts[0].positions, layouts[0].halo) {
        for (std::size_t l = 0; l < layouts.size(); ++l) {
            Level level;
            level.layout = std::move(layouts[l]);
            const int count = level.layout.positions;
            const ProblemLevel<Runner>& given = problem.levels[l];
            if (l > 0) level.r = this->make(count);
            level.x = this->make(count);
            level.y = this->make(count + given.halo.points);
            if (given.coarse_rows > 0) {
                level.t = this->make(count);
                level.correction = this->make(count);
            }
            level.send = runner_.template make<int>(static_cast<std::size_t>(given.halo.points));
            runner_.each(given.halo.points, MapList{given.rows_to_send.data(),
                                                    level.layout.position_of_row.data(), level.send.data()});
            level.buffer = this->make(given.halo.points);
            levels_.push_back(std::move(level));
        }
        for (std::size_t l = 0; l + 1 < levels_.size(); ++l) {
            const ProblemLevel<Runner>& given = problem.levels[l];
            Level& level = levels_[l];
            level.fine_positions = runner_.template make<int>(static_cast<std::size_t>(given.coarse_rows));
            runner_.each(given.coarse_rows,
                         MapList{given.fine_of_coarse.data(), level.layout.position_of_row.data(),
                                 level.fine_positions.data()});
            // Row k of the coarser level is the k-th coarse point.
            level.coarse_positions = runner_.template make<int>(static_cast<std::size_t>(given.coarse_rows));
            runner_.each(given.coarse_rows, CopyInts{levels_[l + 1].layout.position_of_row.data(),
                                                     level.coarse_positions.data()});
            level.restriction = Restriction<Runner>(runner_, level.layout, level.fine_positions.data(),
                                                    level.coarse_positions.data(), given.coarse_rows);
        }
        runner_.each(this->elements_, RightHandSide{problem.levels[0].rows, row_of(), this->b_.data()});
        runner_.synchronize();
    }

    void whole_cycle(double* rz) {
        runner_.begin_sum();
        cycle(0, this->r_.data());
        runner_.end_sum(rz);
    }

    template <typename Op>
    void sweep(const Layout<Runner>& layout, int colour, const Op& op) {
        const int first = layout.first_slices[static_cast<std::size_t>(colour)];
        runner_.sweep(first, layout.first_slices[static_cast<std::size_t>(colour) + 1] - first, op);
    }
    template <typename Op>
    void sweep_sum(std::size_t l, const Layout<Runner>& layout, int colour, const Op& op) {
        if (l > 0) return sweep(layout, colour, op);
        const int first = layout.first_slices[static_cast<std::size_t>(colour)];
        runner_.sweep_sum(first, layout.first_slices[static_cast<std::size_t>(colour) + 1] - first, nullptr,
                          op);
    }

    void cycle(std::size_t l, const double* r) {
        Level& level = levels_[l];
        const Layout<Runner>& layout = level.layout;
        const Matrix lower = layout.lower();
        const Matrix upper = layout.upper();
        const double* const diagonal = layout.diagonal.data();
        double* const x = level.x.data();
        double* const y = level.y.data();
        const int last = layout.colours() - 1;
        const Halo& halo = this->problem_.levels[l].halo;
        double* const y_of_others = y + layout.positions;

        runner_.each(halo.points, FillDoubles{y_of_others, 0});
        for (int c = 0; c < last; ++c) sweep(layout, c, PreForward<Matrix>{lower, r, diagonal, y});
        sweep(layout, last, PreForwardLast<Matrix>{lower, r, diagonal, y, x});
        if (l + 1 == levels_.size()) {
            for (int c = last; c-- > 0;) sweep(layout, c, PreBackwardAlone<Matrix>{upper, diagonal, y, x});
            return;
        }
        for (int c = last; c-- > 0;) sweep(layout, c, PreBackward<Matrix>{upper, diagonal, y, x});

        Level& coarse = levels_[l + 1];
        const int coarse_rows = this->problem_.levels[l].coarse_rows;
        this->exchange(halo, level.send, level.buffer, x, nullptr, -1, y_of_others);
        level.restriction.run(runner_, lower, y, coarse.r.data());
        cycle(l + 1, coarse.r.data());
        runner_.each(coarse_rows, Prolong{coarse.x.data(), level.fine_positions.data(),
                                          level.coarse_positions.data(), level.correction.data()});
        this->exchange(halo, level.send, level.buffer, x, level.correction.data(), 1, y_of_others);

        double* const t = level.t.data();
        for (int c = 0; c < last; ++c) {
            sweep(layout, c,
                  PostForward<Matrix>{lower, upper, layout.coarse_width.data(), level.correction.data(), r,
                                      diagonal, y, t});
        }
        sweep_sum(l, layout, last, PostForwardLast<Matrix>{lower, y, r, diagonal, x});
        for (int c = last; c-- > 0;) sweep_sum(l, layout, c, PostBackward<Matrix>{upper, diagonal, t, r, x});
    }

    std::vector<Level> levels_;
    typename Runner::Captured captured_[2];
};

}  // namespace hpcg
