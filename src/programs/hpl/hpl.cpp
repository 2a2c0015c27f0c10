// HPL: a dense system A x = b by LU factorisation with partial pivoting in double precision, counted and
// checked by the benchmark's rules.
#include "catalogue/hpl.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <set>

#include "lib/base/clock.h"
#include "lib/base/text_file.h"
#include "lib/lu/solver.h"
#include "programs/hpl/backend.h"
#include "programs/hpl/dat.h"

namespace hpl {

using lu::Factored;
using lu::operations;
using lu::StepTimes;

namespace {

/// Columns that --nb auto eliminates with each candidate: a multiple of all.
constexpr std::int64_t probe_columns = 4096;
constexpr std::int64_t max_n = 4000000;
constexpr std::int64_t max_nb = 4096;
constexpr double warm_again_seconds = 0.5;
constexpr int library_repetitions = 1;  // at least as long as the built-in one, on the warm GPU

/// The problem to be solved.
struct Case {
    std::int64_t n;
    std::int64_t nb;
    int p;
    int q;
    bool by_rows;
    std::string grid() const { return std::to_string(p) + "x" + std::to_string(q); }
    std::string key() const {
        return "N " + std::to_string(n) + ", NB " + std::to_string(nb) + ", " + grid();
    }
};

/// The norms of a run, over all ranks, and the derived values.
struct Residual {
    Engine::Norms norms;
    double scaled;
};

std::vector<std::unique_ptr<Backend>> backends() {
    std::vector<std::unique_ptr<Backend>> list;
    list.push_back(make_host_backend());
#ifdef HPL_HAVE_CUDA
    list.push_back(make_cuda_backend());
#endif
    return list;
}

class Hpl : public lu::Solver<Backend> {
  public:
    explicit Hpl(Ranks& ranks) : Solver(ranks, backends()) { taper_ = 16; }

    std::string name() const override { return "hpl"; }
    std::string purpose() const override {
        return "A dense system A x = b by LU with partial pivoting in double precision, in TFLOP/s by HPL's "
               "rules, "
               "verified "
               "by its scaled residual.";
    }

    void options(tenken::Arguments& arguments) override {
        backend_option(arguments, "what factorises");
        arguments.text("n", n_text_, "N", "order of A; auto: as large as --fill of the memory permits");
        arguments.text("nb", nb_text_, "NB",
                       "block size, columns eliminated together; auto: the fastest in a short probe");
        arguments.text("grid", grid_text_, "PxQ", "processes by rows and columns; auto: 1 x all");
        arguments.choice("map", map_, {"column", "row"},
                         "ranks are placed into the grid column by column or row by row");
        arguments.real("fill", fill_, "", 0.01, 0.98, "part of the free memory that --n auto fills");
        arguments.integer("seed", seed_, 0, std::int64_t{1} << 40, "of the matrix");
        step_options(arguments);
        arguments.flag("compare-library", compare_library_, "also times the library's own factorisation");
        arguments.flag("steps", show_steps_, "print a line per step: times, and how much was hidden");
        last_options(arguments);
        arguments.heading("several problems");
        arguments.text(
            "dat", dat_file_, "FILE",
            "an HPL.dat: its N, NB, grids and threshold, every combination; replaces --n, --nb and --grid");
        arguments.integer("sweep", sweep_, 0, 10000,
                          "this many random N, NB and grids instead of --n, --nb and --grid, each also "
                          "compared with a library's solution");
        arguments.integer("sweep-max-n", sweep_max_n_, 8, 20000, "the largest N of --sweep");
        arguments.former_name("sweep-most-n", "sweep-max-n");
    }

    std::vector<tenken::FaultKind> faults() const override {
        return {{"matrix-nan", "one element of the matrix is not a number", "break-matrix", "nan"},
                {"matrix-zero-column", "one column of the matrix is zero", "break-matrix", "zero-column"}};
    }

    void prepare(const tenken::Arguments& arguments) override {
        choose_backend();
        if (!dat_file_.empty()) {
            read_dat(arguments);
        } else {
            Case one = {0, 0, 1, ranks_.size(), map_ == "row"};
            read_grid(arguments, one);
            if (nb_text_ != "auto") one.nb = whole_number(arguments, "nb", nb_text_, max_nb);
            if (n_text_ != "auto") one.n = whole_number(arguments, "n", n_text_, max_n);
            cases_.push_back(one);
        }
        backend_->prepare(arguments, ranks_);
        if (sweep_ > 0) draw_cases();
        for (Case& one : cases_) fit(arguments, one);
    }

    void measure(tenken::Run& run) override {
        tenken::Document& document = run.document;
        matrix_broken_ = injected_fault() == "matrix-nan"           ? Broken::not_a_number
                         : injected_fault() == "matrix-zero-column" ? Broken::zero_column
                                                                    : Broken::none;
        double heat = run.warmup_seconds;
        open_output();
        for (Case& one : cases_) {
            make_grid(one);
            if (one.nb == 0) choose_block(document, one);
            solve_case(run, one, heat);
            heat = std::min(heat, warm_again_seconds);
        }
        print("%s\n", std::string(80, '=').c_str());
        close_output();
        report(document);
    }

  private:
    static std::int64_t whole_number(const tenken::Arguments& arguments, const std::string& option,
                                     const std::string& text, std::int64_t maximum) {
        const bool digits =
            !text.empty() && text.size() < 12 && text.find_first_not_of("0123456789") == std::string::npos;
        const std::int64_t value = digits ? std::stoll(text) : 0;
        if (value < 1 || value > maximum)
            throw arguments.error(option, "auto, or a whole number from 1 to " + std::to_string(maximum));
        return value;
    }

    void read_grid(const tenken::Arguments& arguments, Case& one) const {
        if (grid_text_ == "auto") return;
        int p = 0;
        int q = 0;
        char rest = 0;
        if (std::sscanf(grid_text_.c_str(), "%6dx%6d%c", &p, &q, &rest) != 2 || p < 1 || q < 1)
            throw arguments.error("grid", "auto, or PxQ such as 2x4");
        if (static_cast<std::int64_t>(p) * q != ranks_.size())
            throw arguments.error(
                "grid", "P x Q equal to the number of ranks, which is " + std::to_string(ranks_.size()));
        one.p = p;
        one.q = q;
    }

    void read_dat(const tenken::Arguments& arguments) {
        const tenken::Optional<std::string> text = tenken::read_text(dat_file_);
        if (!text) throw arguments.error("dat", "a file that can be read");
        try {
            dat_ = parse_dat(*text, dat_file_.substr(dat_file_.rfind('/') + 1));
        } catch (const DatError& wrong) {
            throw arguments.error("dat", wrong.what());
        }
        threshold_ = dat_.threshold;
        for (std::size_t g = 0; g < dat_.p.size(); ++g) {
            if (static_cast<std::int64_t>(dat_.p[g]) * dat_.q[g] != ranks_.size())
                throw arguments.error("dat", "grids of as many processes as there are ranks, " +
                                                 std::to_string(ranks_.size()) + "; line 11 and 12 have " +
                                                 std::to_string(dat_.p[g]) + "x" + std::to_string(dat_.q[g]));
            for (std::int64_t n : dat_.n)
                for (std::int64_t nb : dat_.nb) cases_.push_back({n, nb, dat_.p[g], dat_.q[g], dat_.by_rows});
        }
        for (std::size_t i = 0; i < cases_.size(); ++i)
            for (std::size_t j = 0; j < i; ++j)
                if (cases_[i].key() == cases_[j].key())
                    throw arguments.error("dat", "each combination once; listed twice: " + cases_[i].key());
    }

    /// Random problems, including awkward ones: the same in every process.
    void draw_cases() {
        std::mt19937_64 draw(static_cast<std::uint64_t>(seed_));
        const auto up_to = [&](std::int64_t maximum) {
            return 1 + static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(maximum));
        };
        std::vector<int> divisors;
        for (int p = 1; p <= ranks_.size(); ++p)
            if (ranks_.size() % p == 0) divisors.push_back(p);
        std::set<std::string> seen;
        cases_.clear();
        for (std::int64_t tries = 0;
             static_cast<std::int64_t>(cases_.size()) < sweep_ && tries < 100 * sweep_; ++tries) {
            const std::int64_t kind = up_to(6);
            std::int64_t nb = kind <= 3 ? 32 * up_to(16) : up_to(300);
            std::int64_t n = kind == 1 ? up_to(8) : up_to(sweep_max_n_);
            if (kind == 2)
                n = std::max<std::int64_t>(1, nb * up_to(4) - 2 + up_to(3));  // next to a block boundary
            n = std::min(n, sweep_max_n_);
            const int p = divisors[draw() % divisors.size()];
            const Case one = {n, nb, p, ranks_.size() / p, draw() % 2 == 0};
            if (seen.insert(one.key()).second) cases_.push_back(one);
        }
    }

    void make_grid(const Case& one) const { ranks_.make_grid(one.p, one.q, one.by_rows); }

    Layout layout_of(const Case& one, std::int64_t n, std::int64_t nb) const {
        return Layout(n, nb, one.p, one.q, ranks_.row(), ranks_.column());
    }

    std::int64_t widest_block(const Case& one) const {
        const std::vector<std::int64_t> tried = backend_->blocks_to_try();
        return one.nb > 0 ? one.nb : *std::max_element(tried.begin(), tried.end());
    }

    std::uint64_t needed_bytes(const Case& one, std::int64_t n) const {
        return backend_->needed_bytes(layout_of(one, n, widest_block(one)));
    }

    /// Chooses N, or checks that it fits, before anything is allocated.
    void fit(const tenken::Arguments& arguments, Case& one) const {
        make_grid(one);
        if (one.n == 0) {
            const std::int64_t grain = one.nb > 0 ? one.nb : 128;
            std::int64_t low = 0;
            std::int64_t high = max_n / grain;
            while (low < high) {
                const std::int64_t middle = (low + high + 1) / 2;
                if (fits_everywhere(needed_bytes(one, middle * grain), fill_)) {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            if (low == 0)
                throw arguments.error("fill", "what holds at least one block of " + std::to_string(grain));
            one.n = low * grain;
            return;
        }
        const std::uint64_t needed = needed_bytes(one, one.n);
        if (fits_everywhere(needed, 0.98)) return;
        throw arguments.error(dat_file_.empty() ? "n" : "dat", memory_expectation(needed));
    }

    Matrix matrix_of(const Case& one) const {
        return {static_cast<std::uint64_t>(seed_), one.n, matrix_broken_};
    }

    std::vector<Step> steps_of(std::int64_t n, std::int64_t nb) const {
        return plan_steps(n, nb, taper_, backend_->min_width());
    }

    /// Eliminates the first columns with each candidate, and selects the fastest.
    void choose_block(tenken::Document& document, Case& one) {
        double best = 0;
        for (std::int64_t nb : backend_->blocks_to_try()) {
            Case tried = one;
            tried.nb = nb;
            const std::unique_ptr<Engine> engine = backend_->make(layout_of(tried, tried.n, nb), ranks_);
            const std::int64_t columns = std::min(probe_columns, tried.n);
            const std::vector<Step> steps = steps_of(tried.n, nb);
            double rate = 0;
            for (int i = 0; i < 2; ++i) {  // the first time is a warm-up
                engine->generate(matrix_of(tried));
                const Factored done = factorise_steps(*engine, steps, false, columns);
                const double left = static_cast<double>(tried.n - columns);
                rate = (operations(static_cast<double>(tried.n)) - operations(left)) / done.seconds / 1e12;
            }
            rate = -ranks_.largest({-rate}).front();
            document.path("probed_tflops.nb" + std::to_string(nb), rate);
            ranks_.alive("probing NB = " + std::to_string(nb));
            if (rate > best) {
                best = rate;
                one.nb = nb;
            }
        }
    }

    Residual residual_of(Engine& engine, const Case& one) {
        const lu::Range rows = lu::rows_of_rank(one.n, ranks_);
        const Engine::Norms mine = engine.norms(matrix_of(one), rows.begin, rows.end);
        std::vector<double> all = {mine.r, mine.a, mine.b, mine.x};
        for (double& value : all) {
            if (!std::isfinite(value))
                value = std::numeric_limits<double>::infinity();  // MPI_MAX may drop a NaN
        }
        all = ranks_.largest(all);
        Residual found;
        found.norms.r = all[0];
        found.norms.a = all[1];
        found.norms.b = all[2];
        found.norms.x = all[3];
        found.scaled = lu::scaled_residual(all[0], all[1], all[3], all[2], one.n);
        return found;
    }

    tenken::Metric metric(const Case& one, const std::string& name) const {
        return metric_at(
            name,
            {{"grid", tenken::Json(one.grid())}, {"n", tenken::Json(one.n)}, {"nb", tenken::Json(one.nb)}});
    }

    void solve_case(tenken::Run& run, const Case& one, double heat) {
        tenken::Document& document = run.document;
        if (sweep_ == 0) load_kernels(one);
        const std::unique_ptr<Engine> engine = backend_->make(layout_of(one, one.n, one.nb), ranks_);
        const Matrix matrix = matrix_of(one);
        const std::vector<Step> steps = steps_of(one.n, one.nb);
        if (sweep_ == 0) measure_ceiling(document, *engine, one, heat);
        if (sweep_ == 0 &&
            !engine->direct()) {  // also the kernels of large panels, before the first repetition
            engine->generate({static_cast<std::uint64_t>(seed_), one.n, Broken::none});
            factorise_steps(*engine, steps, false, std::min(one.n, 2 * one.nb));
        }

        tenken::Metric rate = metric(one, "hpl");
        tenken::Metric residuals = metric(one, "residual");
        std::vector<double> solve_seconds;
        Factored last;
        for (std::int64_t i = 0; i < run.repetitions; ++i) {
            if (i > 0 && sweep_ == 0 && heat > 0) keep_warm(*engine, heat);
            ranks_.alive("generating the matrix");
            engine->generate(matrix);
            const bool spoil = i == 0 && tenken::injected_error(run.fault, catalogue::residual(), true) > 0;
            backend_->watch([&] { last = solve_once(*engine, steps, spoil); });
            const double seconds = ranks_.largest({last.seconds}).front();
            if (last.singular >= 0) {
                document.fail("the matrix is singular: no pivot in column " + std::to_string(last.singular));
                return;
            }
            const Residual found = residual_of(*engine, one);
            solve_seconds.push_back(seconds);
            residuals.samples.push_back(found.scaled);
            check(document, one, found, i);
            print_result(one, seconds, found);
        }
        if (sweep_ > 0) compare_solution(run, *engine, one);
        rate.timed(solve_seconds, {{"operations", operations(static_cast<double>(one.n))}});
        document.add(rate);
        if (std::isfinite(residuals.samples.front())) document.add(residuals);
        if (sweep_ == 0) report_phases(document, one, last);
        if (sweep_ == 0 && run.fault == tenken::Fault::none) {
            measure_energy(document, one.n, metric(one, "energy"), [&] {
                engine->generate(matrix);
                return ranks_.largest({solve_once(*engine, steps, false).seconds}).front();
            });
        }
        if (compare_library_) measure_library(document, *engine, one);
        engine->describe(document);
    }

    /// Kernels are loaded at first use, which takes milliseconds each; a small problem uses most of them.
    void load_kernels(const Case& one) {
        Case small = one;
        small.n = std::min(one.n, 3 * one.nb);
        const std::unique_ptr<Engine> engine = backend_->make(layout_of(small, small.n, small.nb), ranks_);
        engine->generate({static_cast<std::uint64_t>(seed_), small.n, Broken::none});
        solve_once(*engine, steps_of(small.n, small.nb), false);
    }

    /// Products before a further repetition, so that all begin in the state of the first. At its power limit
    /// a GPU raises its clock while a solution is checked. In three repetitions of 0.6 s on H200 the best was
    /// 1.0 to 5.2 % above the median (24 runs); with 0.5 s of products before each, 0.6 %.
    void keep_warm(Engine& engine, double heat) {
        ranks_.alive("warming up");
        double flops = 0;
        backend_->watch([&] { engine.time_products(std::min(heat, warm_again_seconds), 0, flops); });
    }

    Factored solve_once(Engine& engine, const std::vector<Step>& steps, bool spoil) {
        if (!engine.direct()) return factorise_steps(engine, steps, spoil, engine.layout().n);
        Factored done;
        const double begin = tenken::now_seconds();
        done.singular = engine.solve_directly(spoil);
        done.seconds = tenken::now_seconds() - begin;
        return done;
    }

    void measure_ceiling(tenken::Document& document, Engine& engine, const Case& one, double heat) {
        ranks_.alive("warming up");
        engine.generate(matrix_of(one));
        measure_products(document, metric(one, "dgemm"),
                         [&](double& flops) { return engine.time_products(heat, products, flops); });
    }

    void measure_library(tenken::Document& document, Engine& engine, const Case& one) {
        std::string why_not;
        const std::vector<double> seconds = engine.time_library(matrix_of(one), library_repetitions, why_not);
        if (seconds.empty()) {
            document.path("library_left_out", why_not);
            return;
        }
        tenken::Metric library = metric(one, "library");
        const double n = static_cast<double>(one.n);
        library.timed(ranks_.largest(seconds), {{"operations", 2.0 / 3.0 * n * n * n}});
        document.add(library);
    }

    void check(tenken::Document& document, const Case& one, const Residual& found, std::int64_t repetition) {
        tenken::Check made = check_of(catalogue::residual(), metric(one, "hpl"), repetition, found.scaled);
        made.of.tolerance = threshold_;
        document.add(made);
        norms_.push(tenken::Json::object()
                        .set("r", tenken::number_or_name(found.norms.r))
                        .set("a", tenken::number_or_name(found.norms.a))
                        .set("x", tenken::number_or_name(found.norms.x))
                        .set("b", tenken::number_or_name(found.norms.b)));
        document.path("norms", norms_);
    }

    /// The maximum difference from the solution of the library in one process, for the same matrix.
    void compare_solution(tenken::Run& run, Engine& engine, const Case& one) {
        tenken::Document& document = run.document;
        std::vector<double> x = engine.solution();
        if (!x.empty())
            x.back() *= 1 + tenken::injected_error(run.fault, catalogue::library_difference(), false);
        double largest = 0;
        double apart = 0;
        if (ranks_.speaks()) {
            const std::vector<double> expected = backend_->library_solution(matrix_of(one));
            for (std::size_t i = 0; i < x.size(); ++i) {
                largest = Engine::Norms::larger(largest, expected[i]);
                apart = Engine::Norms::larger(apart, x[i] - expected[i]);
            }
        }
        tenken::Metric difference = metric(one, "difference");
        difference.samples = {apart / largest};
        tenken::Check made = {catalogue::library_difference(), difference.subject, difference.at};
        made.error = ranks_.speaks() ? apart / largest : 0;
        document.add(made);
        if (ranks_.speaks()) {
            document.add(difference);
            print("     difference from the library's solution       = %18.8e ...... %s\n", made.error,
                  made.passed() ? "PASSED" : "FAILED");
        }
    }

    void open_output() {
        if (!ranks_.speaks() || dat_file_.empty()) return;
        if (dat_.output == Dat::Output::error) output_ = stderr;
        if (dat_.output != Dat::Output::file) return;
        output_ = std::fopen(dat_.output_file.c_str(), "w");
        if (output_ == nullptr) throw std::runtime_error(dat_.output_file + ": cannot be written");
    }

    void close_output() {
        if (output_ != stdout && output_ != stderr) std::fclose(output_);
        output_ = stdout;
    }

    template <typename... Values>
    void print(const char* format, Values... values) const {
        if (!ranks_.speaks()) return;
        std::fprintf(output_, format, values...);
        std::fflush(output_);
    }

    /// In HPL's output format, for tools that parse it.
    void print_result(const Case& one, double seconds, const Residual& found) {
        if (!printed_) {
            print(
                "%s\nT/V                N    NB     P     Q               Time                 Gflops\n%s\n",
                std::string(80, '=').c_str(), std::string(80, '-').c_str());
            printed_ = true;
        }
        print("W%c%d0R2R%-5d%10lld %5lld %5d %5d %18.2f %19.4e\n", one.by_rows ? 'R' : 'C',
              look_ahead_ == "on" ? 1 : 0, 32, static_cast<long long>(one.n), static_cast<long long>(one.nb),
              one.p, one.q, seconds, operations(static_cast<double>(one.n)) / seconds / 1e9);
        print("||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= %18.8e ...... %s\n", found.scaled,
              found.scaled <= threshold_ ? "PASSED" : "FAILED");
    }

    void report_phases(tenken::Document& document, const Case& one, const Factored& done) {
        if (done.steps.empty()) return;
        const StepTimes sum = done.sum();
        if (show_steps_ && ranks_.speaks())
            std::printf("%9s %6s %9s %9s %9s %9s %9s %9s %9s %9s\n", "column", "width", "ahead_ms",
                        "panel_ms", "bcast_ms", "idle_ms", "swap_ms", "solve_ms", "update_ms", "TFLOP/s");
        for (const StepTimes& step : done.steps) {
            if (!show_steps_ || !ranks_.speaks()) break;
            std::printf("%9lld %6lld %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.5f\n",
                        static_cast<long long>(step.step.begin), static_cast<long long>(step.step.width),
                        1e3 * step.ahead, 1e3 * step.panel, 1e3 * step.broadcast, 1e3 * step.idle,
                        1e3 * step.swap, 1e3 * step.solve, 1e3 * step.update,
                        step.update > 0 ? step.update_flops / step.update / 1e12 : 0.0);
        }
        add_phases(document, metric(one, "phase"),
                   {{"panel", sum.panel},
                    {"broadcast", sum.broadcast},
                    {"ahead", sum.ahead},
                    {"swap", sum.swap},
                    {"solve", sum.solve},
                    {"update", sum.update},
                    {"exposed", sum.idle + done.first_panel},
                    {"back_substitution", done.solve_seconds}});
        if (ranks_.size() == 1) return;
        char mine[120];
        std::snprintf(mine, sizeof mine, "panel %.3f s, broadcast %.3f s, idle %.3f s, update %.3f s",
                      sum.panel, sum.broadcast, sum.idle, sum.update);
        const std::vector<std::string> all = ranks_.gather(mine);
        for (std::size_t rank = 0; rank < all.size(); ++rank)
            document.path("rank" + std::to_string(rank) + "." + one.grid() + ".n" + std::to_string(one.n),
                          all[rank]);
    }

    std::string n_text_ = "auto";
    std::string nb_text_ = "auto";
    std::string grid_text_ = "auto";
    std::string map_ = "column";
    double fill_ = 0.9;
    bool compare_library_ = false;
    bool show_steps_ = false;
    Broken matrix_broken_ = Broken::none;
    std::vector<Case> cases_;
    bool printed_ = false;
    std::FILE* output_ = stdout;
    std::string dat_file_;
    Dat dat_;
    double threshold_ = catalogue::residual().tolerance;
    tenken::Json norms_ = tenken::Json::array();  ///< of each repetition: A x - b, A, x, b
    std::int64_t sweep_ = 0;
    std::int64_t sweep_max_n_ = 3000;
};

}  // namespace

}  // namespace hpl

int main(int argc, char** argv) {
    const std::unique_ptr<lu::Ranks> ranks = lu::launched_ranks("hpl");
    hpl::Hpl program(*ranks);
    return tenken::run_program(program, argc, argv, *ranks);
}
