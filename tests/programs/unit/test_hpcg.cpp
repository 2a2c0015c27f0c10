#include <algorithm>
#include <cmath>
#include <set>

#include "programs/hpcg/benchmark.h"
#include "programs/hpcg/host_runner.h"
#include "programs/hpcg/solver.h"
#include "unit.h"

namespace {

using namespace hpcg;

/// The host, working as a GPU does: fronts instead of rows in sequence, rows in parallel, all columns listed,
/// vectors in pairs.
class LikeGpu : public HostRunner {
  public:
    static constexpr bool one_by_one = false;
    static constexpr bool rows_side_by_side = true;
    explicit LikeGpu(Ranks& ranks) : HostRunner(ranks, false) {}
    template <typename Functor>
    void each_pair(int count, const Functor& functor) {
        for (int i = 0; i < count / 2; ++i) functor.pair(i);
    }
    template <typename Functor>
    void sum_pair(int count, const Functor& functor, double* to) {
        *to = 0;
        for (int i = 0; i < count / 2; ++i) *to += functor.pair(i);
    }
};

constexpr int side = 16;

template <typename Runner>
Problem<Runner> small_problem(Runner& runner) {
    return generate(runner, make_parts(0, {{1, 1, 1}}, {{side, side, side}}));
}

template <typename Runner>
std::vector<int> colours_of(Runner& runner, const Rows& rows) {
    auto colours = runner.template make<sparse::Colour>(static_cast<std::size_t>(rows.rows));
    std::fill(colours.data(), colours.data() + rows.rows, sparse::no_colour);
    sparse::colour_rows(runner, rows, colours.data(), rows.rows);
    return std::vector<int>(colours.data(), colours.data() + rows.rows);
}

/// A multigrid cycle directly from its definition, with sweeps over the rows in the order of their positions.
class Plainly {
  public:
    Plainly(const Problem<HostRunner>& problem, const Optimised<HostRunner>& solver)
        : problem_(problem), solver_(solver) {}

    std::vector<double> cycle(std::size_t l, const std::vector<double>& r) const {
        const ProblemLevel<HostRunner>& level = problem_.levels[l];
        std::vector<double> x(r.size(), 0);
        smooth(l, r, x);
        if (level.coarse_rows == 0) return x;
        const int* const fine = level.fine_of_coarse.data();
        std::vector<double> coarse(static_cast<std::size_t>(level.coarse_rows));
        for (std::size_t k = 0; k < coarse.size(); ++k) {
            coarse[k] = r[static_cast<std::size_t>(fine[k])] - product(l, x, fine[k]);
        }
        const std::vector<double> correction = cycle(l + 1, coarse);
        for (std::size_t k = 0; k < coarse.size(); ++k) x[static_cast<std::size_t>(fine[k])] += correction[k];
        smooth(l, r, x);
        return x;
    }

  private:
    double product(std::size_t l, const std::vector<double>& x, int row) const {
        const Rows& rows = problem_.levels[l].rows;
        double sum = 0;
        for (int k = 0; k < rows.degree(row); ++k) {
            sum += rows.values[rows.at(row, k)] * x[static_cast<std::size_t>(rows.neighbour(row, k))];
        }
        return sum;
    }
    void smooth(std::size_t l, const std::vector<double>& r, std::vector<double>& x) const {
        const Layout<HostRunner>& layout = solver_.layout(l);
        const auto update = [&](int position) {
            const int row = layout.row_of_position.data()[position];
            if (row < 0) return;
            const auto i = static_cast<std::size_t>(row);
            x[i] += (r[i] - product(l, x, row)) / problem_.levels[l].diagonal.data()[i];
        };
        for (int p = 0; p < layout.positions; ++p) update(p);
        for (int p = layout.positions; p-- > 0;) update(p);
    }

    const Problem<HostRunner>& problem_;
    const Optimised<HostRunner>& solver_;
};

}  // namespace

TEST(hpcg_ranks_lie_so_that_their_surface_is_least) {
    CHECK((shape_of_ranks(8, {{64, 64, 64}}) == std::array<int, 3>{{2, 2, 2}}));
    CHECK((shape_of_ranks(2, {{64, 64, 16}}) == std::array<int, 3>{{1, 1, 2}}));
    CHECK((shape_of_ranks(7, {{64, 64, 64}}) == std::array<int, 3>{{1, 1, 7}}) ||
          (shape_of_ranks(7, {{64, 64, 64}}) == std::array<int, 3>{{7, 1, 1}}));
}

TEST(hpcg_neighbours_agree_on_what_they_exchange) {
    const std::array<int, 3> shape = {{2, 2, 1}};
    std::vector<Part> of_rank;
    for (int rank = 0; rank < 4; ++rank) of_rank.push_back(make_parts(rank, shape, {{16, 24, 32}})[0]);
    for (int rank = 0; rank < 4; ++rank) {
        const Part& mine = of_rank[static_cast<std::size_t>(rank)];
        CHECK(mine.halo.neighbours.size() == 3);
        for (const Neighbour& neighbour : mine.halo.neighbours) {
            const Part& other = of_rank[static_cast<std::size_t>(neighbour.rank)];
            const auto back = std::find_if(other.halo.neighbours.begin(), other.halo.neighbours.end(),
                                           [&](const Neighbour& n) { return n.rank == rank; });
            CHECK(back != other.halo.neighbours.end() && back->count == neighbour.count);
        }
        CHECK(static_cast<int>(mine.halo.rows_to_send.size()) == mine.halo.points);
    }
}

TEST(hpcg_a_shuffle_is_a_permutation) {
    for (int count : {1, 2, 3, 64, 1000, 4096}) {
        const Shuffle shuffle = Shuffle::of(count, 5);
        std::set<int> seen;
        for (int i = 0; i < count; ++i) seen.insert(shuffle(i));
        CHECK(static_cast<int>(seen.size()) == count && *seen.begin() == 0 && *seen.rbegin() == count - 1);
    }
}

TEST(colours_by_fronts_are_those_in_turn) {
    Ranks ranks;
    HostRunner host(ranks);
    LikeGpu gpu(ranks);
    const auto in_turn = small_problem(host);
    const auto by_level_sets = small_problem(gpu);
    CHECK(colours_of(host, in_turn.levels[0].rows) == colours_of(gpu, by_level_sets.levels[0].rows));
    const auto mixed = shuffled(host, in_turn, 3);
    const auto mixed_too = shuffled(gpu, by_level_sets, 3);
    const std::vector<int> colours = colours_of(host, mixed.levels[0].rows);
    CHECK(colours == colours_of(gpu, mixed_too.levels[0].rows));
    const Rows& rows = mixed.levels[0].rows;
    int clashes = 0;
    for (int row = 0; row < rows.rows; ++row) {
        for (int k = 0; k < rows.degree(row); ++k) {
            const int other = rows.neighbour(row, k);
            if (other != row &&
                colours[static_cast<std::size_t>(other)] == colours[static_cast<std::size_t>(row)]) {
                ++clashes;
            }
        }
    }
    CHECK(clashes == 0);
    CHECK(*std::max_element(colours.begin(), colours.end()) < 27);
}

TEST(level_sets_hold_every_row_once_and_no_neighbours) {
    Ranks ranks;
    HostRunner host(ranks);
    const auto problem = small_problem(host);
    const Rows& rows = problem.levels[0].rows;
    const auto level_sets = sparse::peel(host, rows, static_cast<sparse::Colour*>(nullptr), rows.rows);
    // x + 2 y + 4 z numbers the fronts of this grid
    CHECK(static_cast<int>(level_sets.begins.size()) - 1 == 7 * (side - 1) + 1);
    std::vector<int> level_set_of(static_cast<std::size_t>(rows.rows), -1);
    for (std::size_t f = 0; f + 1 < level_sets.begins.size(); ++f) {
        for (int i = level_sets.begins[f]; i < level_sets.begins[f + 1]; ++i) {
            level_set_of[static_cast<std::size_t>(level_sets.order.data()[i])] = static_cast<int>(f);
        }
    }
    int wrong = 0;
    for (int row = 0; row < rows.rows; ++row) {
        for (int k = 0; k < rows.degree(row); ++k) {
            const int other = rows.neighbour(row, k);
            if (other < row && level_set_of[static_cast<std::size_t>(other)] >=
                                   level_set_of[static_cast<std::size_t>(row)]) {
                ++wrong;
            }
        }
    }
    CHECK(wrong == 0);
}

TEST(a_graph_whose_rows_do_not_name_each_other_is_refused) {
    Ranks ranks;
    LikeGpu gpu(ranks);
    auto problem = small_problem(gpu);
    // row 0 refers to row 1, which does not refer back
    Rows& rows = problem.levels[0].rows;
    for (int k = 0; k < rows.degree(0); ++k) {
        if (rows.neighbour(0, k) == 1) rows.columns[rows.at(0, k)] = 0;
    }
    const std::string said = unit::thrown<std::runtime_error>(
        [&] { sparse::peel(gpu, rows, static_cast<sparse::Colour*>(nullptr), rows.rows); });
    CHECK_EQUAL(said, "the graph could not be peeled: its rows do not name each other");
}

TEST(the_last_colour_stays_last_and_its_strongest_partner_is_first) {
    // 0-3 and 1-2 are joined by many entries
    const std::vector<int> counts = {0, 2, 4, 8, 2, 0, 8, 4, 4, 8, 0, 2, 8, 4, 2, 0};
    CHECK((order_colours(counts, 4) == std::vector<int>{0, 1, 2, 3}));
    CHECK((order_colours({0}, 1) == std::vector<int>{0}));
    std::vector<int> place = order_colours(std::vector<int>(49, 1), 7);
    CHECK(place.back() == 6);
    std::sort(place.begin(), place.end());
    for (int i = 0; i < 7; ++i) CHECK(place[static_cast<std::size_t>(i)] == i);
}

TEST(slices_are_interleaved_without_loss) {
    const std::vector<int> first = {0, 5, 6, 16};
    std::vector<int> order = interleave(first, 3);
    std::sort(order.begin(), order.end());
    for (int i = 0; i < 16; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST(hpcg_has_eight_colours_in_the_given_numbering) {
    Ranks ranks;
    HostRunner host(ranks);
    const auto problem = small_problem(host);
    const auto solver = Optimised<HostRunner>::make_from(host, problem, false);
    for (std::size_t l = 0; l < problem.levels.size(); ++l) {
        CHECK(solver->layout(l).colours() == 8);
        CHECK(solver->layout(l).clashes == 0);
    }
    CHECK(Optimised<HostRunner>::make_from(host, problem, true)->layout(0).clashes > 0);
}

TEST(the_optimised_cycle_is_the_one_of_the_definition) {
    Ranks ranks;
    HostRunner host(ranks);
    for (const bool mixed : {false, true}) {
        const auto given = small_problem(host);
        const auto other = shuffled(host, given, 11);
        const Problem<HostRunner>& problem = mixed ? other : given;
        const auto solver = Optimised<HostRunner>::make_from(host, problem, false);
        const Layout<HostRunner>& layout = solver->layout(0);
        solver->fill_random(Vector::first, 4);
        solver->cycle_of(Vector::first, Vector::second);
        // Sums with all unit vectors would take long: the vectors are compared through their sums with random
        // ones.
        std::vector<double> r(static_cast<std::size_t>(layout.rows));
        for (int row = 0; row < layout.rows; ++row) {
            r[static_cast<std::size_t>(row)] =
                1 + sparse::unit_real(sparse::mixed_bits(
                        4, static_cast<std::uint64_t>(problem.levels[0].ids.data()[row]), 0));
        }
        const std::vector<double> z = Plainly(problem, *solver).cycle(0, r);
        for (std::uint64_t seed = 20; seed < 24; ++seed) {
            solver->fill_random(Vector::third, seed);
            const double found = solver->dot(Vector::second, Vector::third);
            double wanted = 0;
            for (int row = 0; row < layout.rows; ++row) {
                wanted += z[static_cast<std::size_t>(row)] *
                          (1 + sparse::unit_real(sparse::mixed_bits(
                                   seed, static_cast<std::uint64_t>(problem.levels[0].ids.data()[row]), 0)));
            }
            CHECK(std::fabs(found - wanted) < 1e-10 * std::fabs(wanted));
        }
        double squares = 0;
        for (double value : z) squares += value * value;
        CHECK(std::fabs(solver->dot(Vector::second, Vector::second) - squares) < 1e-10 * squares);
    }
}

namespace {

/// The sums of a part of a slice: row by row, with a vector whose element i is i + 1.
template <int height>
std::vector<double> sums_of(const SlotPlan<height>& plan, int first_listed, int position) {
    const auto size = static_cast<std::size_t>(height);
    std::vector<int> firsts(static_cast<std::size_t>(plan.width()));
    std::vector<double> values(firsts.size() * size, std::nan(""));
    std::vector<int> columns(static_cast<std::size_t>(plan.listed()) * size, -1);
    plan.write(firsts.data(), values.data(), columns.data(), first_listed, position);
    std::vector<double> sums(size, 0);
    for (std::size_t k = 0; k < firsts.size(); ++k) {
        for (std::size_t lane = 0; lane < size; ++lane) {
            const int column =
                firsts[k] >= 0
                    ? firsts[k] + static_cast<int>(lane)
                    : columns[static_cast<std::size_t>(-1 - firsts[k] - first_listed) * size + lane];
            sums[lane] += values[k * size + lane] * (column + 1);
        }
    }
    return sums;
}

}  // namespace

TEST(columns_that_follow_each_other_share_a_slot) {
    SlotPlan<4> plan(100);
    for (int lane = 0; lane < 4; ++lane) plan.add(lane, 10 + lane, 2);
    for (int lane = 1; lane < 4; ++lane) plan.add(lane, 50 + lane, 3);  // row 0 has none
    plan.choose();
    CHECK(plan.runs() == 2 && plan.listed() == 0);
    CHECK((sums_of(plan, 7, 20) == std::vector<double>{22, 24 + 156, 26 + 159, 28 + 162}));
}

TEST(columns_that_do_not_are_listed) {
    SlotPlan<4> plan(100);
    const int columns[] = {90, 3, 41, 41};
    for (int lane = 0; lane < 4; ++lane) {
        plan.add(lane, columns[lane], 1);
        plan.add(lane, 10 + lane, 2);
    }
    plan.add(2, 12, 5);  // named twice
    plan.add(1, 77, 1);
    plan.choose();
    CHECK(plan.runs() == 1 && plan.listed() == 2);
    CHECK((sums_of(plan, 7, 20) == std::vector<double>{91 + 22, 4 + 24 + 78, 42 + 26 + 65, 42 + 28}));
}

TEST(a_run_never_leaves_the_vector) {
    for (const int offset : {-1, 0, 92, 93}) {
        SlotPlan<8> plan(100);
        double wanted = 0;
        for (int lane = 1; lane < 7; ++lane) {
            plan.add(lane, offset + lane, 1);
            wanted += offset + lane + 1;
        }
        plan.choose();
        CHECK(plan.runs() == (offset == 0 || offset == 92 ? 1 : 0) && plan.width() == 1);
        double found = 0;
        for (double sum : sums_of(plan, 0, 20)) found += sum;
        CHECK(found == wanted);
    }
}

TEST(slots_hold_the_matrix_whatever_its_numbering) {
    Ranks ranks;
    HostRunner host(ranks);
    HostRunner lists(ranks, false);
    const auto given = small_problem(host);
    const auto mixed = shuffled(host, given, 3);
    for (const Problem<HostRunner>* problem : {&given, &mixed}) {
        const auto runs = Optimised<HostRunner>::make_from(host, *problem, false);
        const auto listed = Optimised<HostRunner>::make_from(lists, *problem, false);
        const Layout<HostRunner>& layout = runs->layout(0);
        CHECK(listed->layout(0).listed_slots < 0);
        const std::int64_t slots = (layout.lower_places + layout.upper_places) / HostRunner::height;
        if (problem == &given) CHECK(layout.listed_slots < slots / 20);
        if (problem == &mixed) CHECK(layout.listed_slots > slots / 2);
        CHECK(problem == &mixed || runs->bytes().total() < 0.8 * listed->bytes().total());
        for (auto* solver : {runs.get(), listed.get()}) {
            solver->fill_random(Vector::first, 5);
            solver->product_of(Vector::first, Vector::second);
        }
        for (std::uint64_t seed = 6; seed < 9; ++seed) {
            double found[2];
            for (int which = 0; which < 2; ++which) {
                auto& solver = which == 0 ? *runs : *listed;
                solver.fill_random(Vector::third, seed);
                found[which] = solver.dot(Vector::second, Vector::third);
            }
            CHECK(std::fabs(found[0] - found[1]) < 1e-12 * std::fabs(found[1]));
        }
    }
}

TEST(hpcg_counts_operations_as_hpcg_does) {
    // 27-point problem of 104^3, one set of 50 iterations; counted by hand from the formulas of HPCG 3.1
    std::vector<Totals> totals;
    for (const Part& part : make_parts(0, {{1, 1, 1}}, {{104, 104, 104}}))
        totals.push_back(totals_of(part.box));
    CHECK(totals[0].rows == 1124864.0);
    CHECK(totals[0].entries == 29791000.0);
    const Operations count = count_operations(totals, 1, 50);
    CHECK(count.dot == 151.0 * 2 * 1124864);
    CHECK(count.product == 51.0 * 2 * 29791000);
    CHECK(count.cycle == 50.0 * (10.0 * (29791000.0 + 3652264 + 438976) + 4.0 * 50653));
}

TEST(hpcg_solves_and_its_tests_of_validity_pass) {
    Ranks ranks;
    LikeGpu gpu(ranks);
    const auto problem = small_problem(gpu);
    GivenOrder<LikeGpu> given(gpu, problem);
    const Solution reference = conjugate_gradients(given, 25, 0, true);
    CHECK(reference.iterations == 25 && reference.scaled() < 1e-15);
    CHECK(given.worst_error() < 1e-12);
    const auto solver = Optimised<LikeGpu>::make_from(gpu, problem, false);
    const SpectralTest spectrum = test_spectrum(*solver);
    CHECK(spectrum.plain <= SpectralTest::max_plain &&
          spectrum.preconditioned <= SpectralTest::max_preconditioned);
    const SymmetryTest symmetry = test_symmetry(*solver);
    CHECK(symmetry.product < 1 && symmetry.cycle < 1);
    const Solution found = conjugate_gradients(*solver, 100, reference.scaled(), true);
    CHECK(found.iterations < 40 && found.scaled() <= reference.scaled());
    solver->spoil_value();
    CHECK(test_symmetry(*solver).product > 1);
}
