// HPCG: conjugate gradients with multigrid on a 27-point problem, by the rules of HPCG 3.1, on the host or on
// GPUs.
#include "catalogue/hpcg.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "lib/base/clock.h"
#include "lib/base/energy_pass.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#include "programs/hpcg/backend.h"
#include "programs/hpcg/benchmark.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace hpcg {

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<Backend> make_cuda_backend() {
    return nullptr;
}
#endif
#ifndef TENKEN_HAVE_MPI
std::unique_ptr<Ranks> launched_ranks() {
    return std::unique_ptr<Ranks>(new Ranks);
}
#endif

namespace {

/// The minimum ratio of two sides allowed by HPCG, for the local grid and for the grid of ranks.
constexpr double min_ratio = 0.125;
constexpr int reference_calls = 3;

/// Memory of one row of the finest level, with its share of the coarser ones: the matrix as given and as laid
/// out (27 entries of 12 bytes each), vectors of both solvers, orders.
constexpr double bytes_of_row = 900;
/// The same for a shuffled copy, whose slices have more places without an entry.
constexpr double bytes_of_row_shuffled = 1020;

template <typename T>
bool degenerate(const std::array<T, 3>& sides) {
    const auto ends = std::minmax_element(sides.begin(), sides.end());
    return static_cast<double>(*ends.first) / static_cast<double>(*ends.second) < min_ratio;
}

std::string text_of(const std::array<int, 3>& sides) {
    return std::to_string(sides[0]) + " x " + std::to_string(sides[1]) + " x " + std::to_string(sides[2]);
}

class Hpcg : public tenken::Program {
  public:
    explicit Hpcg(Ranks& ranks) : ranks_(ranks), host_(make_host_backend()), cuda_(make_cuda_backend()) {}

    std::string name() const override { return "hpcg"; }
    std::string purpose() const override {
        return "HPCG: conjugate gradients with a multigrid of four levels, by the phases, rules and tests of "
               "HPCG 3.1, in GFLOP/s of the operations that it counts; --repetitions is for the dot product.";
    }

    void options(tenken::Arguments& arguments) override {
        arguments.choice("backend", backend_name_, tenken::backends(cuda_ != nullptr),
                         "host: OpenMP; cuda: a GPU for each rank");
        const char* const sides = "points of each rank along this axis, a multiple of 8; 0: same as --nx";
        arguments.integer("nx", local_[0], 16, 1024, "points of each rank along x, a multiple of 8");
        arguments.integer("ny", local_[1], 0, 1024, sides);
        arguments.integer("nz", local_[2], 0, 1024, sides);
        for (std::size_t axis = 0; axis < 3; ++axis) {
            arguments.integer(axis == 0   ? "npx"
                              : axis == 1 ? "npy"
                                          : "npz",
                              shape_[axis], 0, 1000000, "ranks along this axis; 0: automatic");
        }
        arguments.real("target-seconds", target_seconds_, "s", 0, 36000,
                       "duration of the timed sets of at least 50 iterations, at least one set; an official "
                       "run takes 1800");
        arguments.choice(
            "shuffled", shuffled_, {"on", "off"},
            "also solve a copy with rows and columns in random order, which may take 5 % more iterations");
        arguments.text("hpcg-file", file_, "FILE", "write the report in HPCG's own form to FILE");
        arguments.integer("ranks", wanted_ranks_, 0, 1000000, "required number of ranks; 0: any");
        arguments.real("energy-seconds", energy_seconds_, "s", 0, 600,
                       "minimum duration of the energy pass, at least 2; 0: none");
        arguments.real("patience-seconds", patience_seconds_, "s", 1, 36000,
                       "abort if a rank has waited this long for the others");
        host_->options(arguments);
        if (cuda_) cuda_->options(arguments);
    }

    std::vector<tenken::FaultKind> faults() const override {
        std::vector<tenken::FaultKind> kinds = tenken::rank_faults(false);
        kinds.push_back({"matrix-value", "a wrong value in the matrix", "break", "value"});
        kinds.push_back({"halo-value", "wrong values from other ranks", "break", "halo"});
        kinds.push_back({"colour", "one row has the colour of a neighbour", "break", "colour"});
        kinds.push_back({"vector-nan", "not a number in the right-hand side", "break", "nan"});
        return kinds;
    }

    void prepare(const tenken::Arguments& arguments) override {
        ranks_.set_patience(patience_seconds_);
        if (wanted_ranks_ > 0 && wanted_ranks_ != ranks_.size()) {
            throw std::runtime_error("requested " + std::to_string(wanted_ranks_) + " ranks, started " +
                                     std::to_string(ranks_.size()) +
                                     (ranks_.size() == 1 ? ": the launcher does not match the MPI" : ""));
        }
        const char* const names[3] = {"nx", "ny", "nz"};
        for (std::size_t axis = 0; axis < 3; ++axis) {
            if (local_[axis] == 0) local_[axis] = local_[0];
            if (local_[axis] % 8 != 0 || local_[axis] < 16) {
                throw arguments.error(names[axis],
                                      "a multiple of 8 from 16 on, so that three levels can be halved");
            }
            outcome_.local[axis] = static_cast<int>(local_[axis]);
        }
        if (degenerate(outcome_.local)) {
            throw arguments.error(
                "nx", "sides of at least an eighth of the longest one: requested " + text_of(outcome_.local));
        }
        choose_shape(arguments);
        outcome_.ranks = ranks_.size();
        backend_ = backend_name_ == "cuda" ? cuda_.get() : host_.get();
        backend_->prepare(arguments, ranks_);
        parts_ = make_parts(ranks_.rank(), outcome_.shape, outcome_.local);
        for (const Part& part : parts_) {
            outcome_.totals.push_back(totals_of(part.box));
            outcome_.level_bytes.push_back(static_cast<std::uint64_t>(part.box.rows()) * 850);
        }
        const double rows = static_cast<double>(parts_[0].box.rows());
        const auto asked =
            static_cast<std::uint64_t>(rows * (shuffled_ == "on" ? bytes_of_row_shuffled : bytes_of_row));
        if (asked > backend_->free_bytes()) {
            throw arguments.error("nx", "a grid that fits: requested " + tenken::format_bytes(asked) +
                                            " for " + text_of(outcome_.local) + ", free " +
                                            tenken::format_bytes(backend_->free_bytes()) + " on " +
                                            backend_->memory());
        }
    }

    void measure(tenken::Run& run) override {
        run_ = &run;
#ifdef _OPENMP
        outcome_.threads = omp_get_max_threads();
#endif
        const tenken::TimedDots dots = time_dots();
        try {
            benchmark();
        } catch (...) {
            report(dots);
            throw;
        }
        report(dots);
    }

  private:
    void choose_shape(const tenken::Arguments& arguments) {
        const std::int64_t given = shape_[0] * shape_[1] * shape_[2];
        const bool none = shape_[0] == 0 && shape_[1] == 0 && shape_[2] == 0;
        if (!none && given != ranks_.size()) {
            throw arguments.error("npx", "three numbers whose product is the number of ranks, " +
                                             std::to_string(ranks_.size()) + ": requested " +
                                             std::to_string(shape_[0]) + " x " + std::to_string(shape_[1]) +
                                             " x " + std::to_string(shape_[2]));
        }
        outcome_.shape = none ? shape_of_ranks(ranks_.size(), outcome_.local)
                              : std::array<int, 3>{static_cast<int>(shape_[0]), static_cast<int>(shape_[1]),
                                                   static_cast<int>(shape_[2])};
        if (degenerate(outcome_.shape)) {
            throw arguments.error(
                "npx", "a grid of ranks with sides of at least an eighth of the longest one: " +
                           std::to_string(ranks_.size()) + " ranks give " + text_of(outcome_.shape));
        }
    }

    tenken::Subject subject() const {
        if (ranks_.size() > 1) return tenken::Subject::ranks(ranks_.size());
        return backend_->subject();
    }

    /// Seconds in which all arrays are read at the sum of the rates of all ranks, measured at the same time.
    tenken::TimedDots time_dots() {
        ranks_.alive("dot product");
        ranks_.barrier();
        tenken::TimedDots dots =
            backend_->time_dots(static_cast<long>(run_->repetitions), run_->warmup_seconds);
        if (ranks_.size() == 1) return dots;
        for (double& one : dots.seconds) one = dots.bytes / one;
        ranks_.sum(dots.seconds.data(), static_cast<int>(dots.seconds.size()));
        ranks_.sum(&dots.bytes, 1);
        for (double& one : dots.seconds) one = dots.bytes / one;
        return dots;
    }

    double longest(double seconds) { return ranks_.largest({seconds}).front(); }

    /// Conjugate gradients with multigrid, with reports of progress to the watchdog.
    Solution solve(Engine& engine, int max_iterations, double tolerance, const std::string& doing) {
        return conjugate_gradients(engine, max_iterations, tolerance, true, [&] { ranks_.alive(doing); });
    }

    /// HPCG's phases in their order.
    void benchmark() {
        ranks_.alive("problem setup");
        ranks_.barrier();
        double begin = tenken::now_seconds();
        backend_->generate(parts_);
        outcome_.setup_seconds = longest(tenken::now_seconds() - begin);

        reference();

        ranks_.alive("optimisation");
        ranks_.barrier();
        begin = tenken::now_seconds();
        std::unique_ptr<Engine> engine = backend_->optimised(injected_fault() == "colour");
        outcome_.optimise_seconds = longest(tenken::now_seconds() - begin);
        if (injected_fault() == "matrix-value") engine->spoil_value();
        if (injected_fault() == "halo-value" && ranks_.rank() == 0) engine->spoil_halo();
        bytes_ = engine->bytes();
        facts_ = engine->facts();

        ranks_.alive("tests of validity");
        outcome_.spectrum = test_spectrum(*engine);
        outcome_.symmetry = test_symmetry(*engine);
        if (injected_fault() == "vector-nan")
            engine->fill(Vector::b, std::numeric_limits<double>::quiet_NaN());

        ranks_.alive("iterations needed");
        ranks_.barrier();
        begin = tenken::now_seconds();
        const Solution needed =
            solve(*engine, 10 * reference_iterations, outcome_.reference_scaled, "iterations needed");
        const double worst = longest(tenken::now_seconds() - begin);
        outcome_.needed_iterations = needed.iterations;
        outcome_.converged = needed.scaled() <= outcome_.reference_scaled;
        // Fewer iterations than the reference's are not counted as a gain.
        outcome_.iterations = std::max(needed.iterations, reference_iterations);

        // A solver that does not converge is timed once, for the record.
        const long sets = outcome_.converged ? static_cast<long>(target_seconds_ / worst) + 1 : 1;
        const Solution last = timed_sets(*engine, sets);
        verify(*engine, last);
        measure_energy(*engine);
        engine.reset();
        if (shuffled_ == "on") solve_shuffled();
        backend_->forget();
    }

    void reference() {
        ranks_.alive("reference in the given order");
        std::unique_ptr<Engine> engine = backend_->given_order();
        engine->fill_random(Vector::first, 3);
        engine->norm();
        double begin = tenken::now_seconds();
        for (int call = 0; call < reference_calls; ++call) {
            engine->product_of(Vector::first, Vector::second);
            engine->cycle_of(Vector::second, Vector::first);
        }
        engine->norm();
        outcome_.reference_seconds = longest(tenken::now_seconds() - begin) / reference_calls;
        outcome_.reference_scaled =
            solve(*engine, reference_iterations, 0, "reference in the given order").scaled();
        for (const auto& fact : engine->facts()) run_->document.path(fact.first, fact.second);
    }

    Solution timed_sets(Engine& engine, long sets) {
        Solution last;
        std::vector<double> scaled;
        engine.clear_times();
        backend_->watch([&] {
            for (long set = 0; set < sets; ++set) {
                const std::string doing = "set " + std::to_string(set + 1) + " of " + std::to_string(sets);
                ranks_.alive(doing);
                if (set == sets / 2 && ranks_.rank() == ranks_.size() - 1)
                    tenken::end_this_rank(injected_fault());
                ranks_.barrier();
                const double begin = tenken::now_seconds();
                last = solve(engine, outcome_.iterations, 0, doing);
                outcome_.set_seconds.push_back(tenken::now_seconds() - begin);
                scaled.push_back(last.scaled());
                outcome_.phases = engine.times();
            }
        });
        outcome_.set_seconds = ranks_.largest(outcome_.set_seconds);
        for (double seconds : outcome_.set_seconds) outcome_.total_seconds += seconds;
        outcome_.norms = test_norms(scaled);
        double mean = outcome_.phases.dot;
        ranks_.sum(&mean, 1);
        outcome_.reduce_mean = mean / ranks_.size();
        outcome_.reduce_max = longest(outcome_.phases.dot);
        outcome_.reduce_min = -longest(-outcome_.phases.dot);
        return last;
    }

    /// Sets of iterations, as in the timed part, for the time that the sensor requires.
    void measure_energy(Engine& engine) {
        if (energy_seconds_ == 0 || !tenken::measured_by_all(backend_->energy(), ranks_)) return;
        tenken::EnergyPass pass;
        pass.amount = count_operations(outcome_.totals, 1, outcome_.iterations).total();
        pass.run = [&] {
            ranks_.barrier();
            const double begin = tenken::now_seconds();
            solve(engine, outcome_.iterations, 0, "energy");
            return longest(tenken::now_seconds() - begin);
        };
        const tenken::EnergyFound found =
            tenken::measure_energy(*backend_->energy(), ranks_, energy_seconds_, pass);
        tenken::add_energy(run_->document, ranks_, pass, found, metric("energy"));
    }

    void add(const tenken::Verified& of, double error, tenken::At at = {}) {
        run_->document.add({of, subject(), std::move(at), error});
    }

    void verify(Engine& engine, const Solution& last) {
        add(catalogue::spectral(), outcome_.spectrum.plain);
        add(catalogue::spectral_multigrid(), outcome_.spectrum.preconditioned);
        add(catalogue::symmetry(), outcome_.symmetry.product);
        add(catalogue::symmetry_multigrid(), outcome_.symmetry.cycle);
        add(catalogue::variance(), outcome_.norms.variance);
        add(catalogue::iterations(),
            outcome_.converged ? outcome_.needed_iterations : std::numeric_limits<double>::infinity(),
            {{"reference", tenken::Json(reference_iterations)}});
        if (run_->fault == tenken::Fault::element) engine.spoil_x();
        // r = b - A x recomputed, not the recursive residual of the iterations.
        const double residual = engine.residual_of_x();
        add(catalogue::residual(), std::fabs(residual - last.norm) / last.first_norm);
        worst_error_ = ranks_.largest({nan_as_infinity(engine.worst_error())}).front();
        constexpr double least = 1e-9;
        add(catalogue::solution(), worst_error_ / std::max(outcome_.reference_scaled, least),
            {{"expected", tenken::Json(1)}, {"least", tenken::Json(least)}});
    }

    static double nan_as_infinity(double value) {
        return std::isfinite(value) ? value : std::numeric_limits<double>::max();
    }

    void solve_shuffled() {
        ranks_.alive("shuffled copy");
        backend_->shuffle(20200103);
        std::unique_ptr<Engine> engine = backend_->optimised(false);
        const Solution found =
            solve(*engine, 10 * reference_iterations, outcome_.reference_scaled, "shuffled copy");
        shuffled_iterations_ = found.iterations;
        for (const auto& fact : engine->facts()) run_->document.path("shuffled." + fact.first, fact.second);
        run_->document.path("shuffled.iterations", found.iterations);
        const bool reached = found.scaled() <= outcome_.reference_scaled;
        const double more = static_cast<double>(found.iterations) / outcome_.iterations - 1;
        add(catalogue::shuffled(), reached ? std::max(0.0, more) : std::numeric_limits<double>::infinity());
    }

    tenken::Metric metric(const std::string& name) const {
        tenken::Metric made;
        made.name = name;
        made.subject = subject();
        return made;
    }

    void add_seconds(const std::string& name, std::vector<double> seconds, double operations = 0) {
        tenken::Metric made = metric(name);
        made.timed(std::move(seconds));
        if (operations > 0) made.counts = {{"operations", operations}};
        run_->document.add(made);
    }

    void report(const tenken::TimedDots& dots) {
        tenken::Document& document = run_->document;
        tenken::Metric dot = metric("dot");
        dot.clock = backend_ == cuda_.get() ? "device" : "host";
        dot.timed(dots.seconds, {{"bytes", dots.bytes}});
        document.add(dot);
        if (!outcome_.set_seconds.empty()) report_sets();
        document.placement = tenken::find_placement();
        document.placement.ranks = ranks_.size();
        document.placement.nodes = ranks_.nodes();
        if (!ranks_.library().empty()) document.build.mpi = ranks_.library();
        backend_->report(document, ranks_);
        document.path("backend", backend_->name());
        document.path("rank_grid", text_of(outcome_.shape));
        for (const auto& fact : facts_) document.path(fact.first, fact.second);
    }

    void report_sets() {
        tenken::Document& document = run_->document;
        const double iterations = outcome_.sets() * outcome_.iterations;
        const Operations operations = outcome_.operations();
        const Operations one = count_operations(outcome_.totals, 1, outcome_.iterations);
        const double all_ranks = ranks_.size();
        const double per_iteration = one.total() / outcome_.iterations;
        add_seconds("set", outcome_.set_seconds, one.total());
        add_seconds("raw", {outcome_.total_seconds}, operations.total());
        add_seconds("rating", {outcome_.rated_seconds()}, outcome_.with_convergence());
        add_seconds("spmv", {outcome_.phases.product}, operations.product);
        add_seconds("mg", {outcome_.phases.cycle}, operations.cycle);
        add_seconds("setup", {outcome_.setup_seconds});
        add_seconds("optimise", {outcome_.optimise_seconds});
        tenken::Metric needed = metric("iterations");
        needed.samples = {static_cast<double>(outcome_.needed_iterations)};
        document.add(needed);
        document.path("operations_of_iteration.product", operations.product / iterations / all_ranks);
        document.path("operations_of_iteration.cycle", operations.cycle / iterations / all_ranks);
        document.path("bytes_of_matrix", bytes_.matrix);
        document.path("sets", static_cast<std::uint64_t>(outcome_.set_seconds.size()));
        document.path("iterations_of_set", outcome_.iterations);
        document.path("reference_residual", outcome_.reference_scaled);
        document.path("worst_error", worst_error_);
        document.path("phase_seconds.dot", outcome_.phases.dot);
        document.path("phase_seconds.vectors", outcome_.phases.vectors);
        document.path("phase_seconds.product", outcome_.phases.product);
        document.path("phase_seconds.cycle", outcome_.phases.cycle);
        document.path("bytes_of_iteration.vectors", bytes_.vectors);
        document.path("bytes_of_iteration.product", bytes_.product);
        document.path("bytes_of_iteration.cycle", bytes_.cycle);
        document.path("operations_of_iteration", per_iteration / all_ranks);
        const bool long_enough = outcome_.total_seconds >= official_seconds;
        document.path("official_time", long_enough ? "yes"
                                                   : "no: an official run takes 1800 s, this one " +
                                                         std::to_string(outcome_.total_seconds) + " s");
        const double used = bytes_of_row * static_cast<double>(parts_[0].box.rows());
        const double share = used / static_cast<double>(backend_->all_bytes());
        document.path("official_memory",
                      share >= 0.25 ? "yes"
                                    : "no: an official run fills a quarter of the memory, this one " +
                                          std::to_string(100 * share) + " %");
        if (ranks_.rank() == 0 && !file_.empty()) write_file();
    }

    void write_file() {
        std::ofstream file(file_);
        file << report_text(outcome_);
        file.close();
        if (!file) throw std::runtime_error(file_ + ": cannot be written");
    }

    Ranks& ranks_;
    std::unique_ptr<Backend> host_;
    std::unique_ptr<Backend> cuda_;
    Backend* backend_ = nullptr;
    std::string backend_name_ = "host";
    std::array<std::int64_t, 3> local_ = {{104, 0, 0}};
    std::array<std::int64_t, 3> shape_ = {{0, 0, 0}};
    double target_seconds_ = 20;
    double energy_seconds_ = 0;
    std::string shuffled_ = "off";
    std::string file_;
    std::int64_t wanted_ranks_ = 0;
    double patience_seconds_ = 300;

    tenken::Run* run_ = nullptr;
    std::vector<Part> parts_;
    Outcome outcome_;
    PhaseBytes bytes_;
    std::vector<std::pair<std::string, std::string>> facts_;
    int shuffled_iterations_ = 0;
    double worst_error_ = 0;
};

}  // namespace

}  // namespace hpcg

int main(int argc, char** argv) {
    const std::unique_ptr<hpcg::Ranks> ranks = hpcg::launched_ranks();
    hpcg::Hpcg program(*ranks);
    return tenken::run_program(program, argc, argv, *ranks);
}
