// HPL-MxP: a dense system to the accuracy of double precision by a factorisation in lower precision, counted
// and checked by the benchmark's rules (docs/hpl_mxp.md), with verification of its factors.
#include "catalogue/hpl_mxp.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "lib/base/clock.h"
#include "lib/lu/solver.h"
#include "programs/hpl_mxp/backend.h"
#include "programs/hpl_mxp/refine.h"

namespace mxp {

namespace {

/// The residual of an FP64 factorisation is of the order of 0.01; refinement continues to this level.
constexpr double target_residual = 0.01;

/// Maximum number of corrections for a correct factorisation of a well-conditioned matrix: each leaves at
/// most 1e-3 (FP16), 1e-2 (BF16), 0.2 (FP8) of the error, and 2^-53 is 1e-16.
int usual_refinements(Low low) {
    return low == Low::fp16 ? 5 : low == Low::bf16 ? 8 : 24;
}

struct Solved {
    double convert = 0;
    double refine = 0;
    double seconds = 0;
    lu::Factored factored;
    Refined refined;
};

std::vector<std::unique_ptr<Backend>> backends() {
    std::vector<std::unique_ptr<Backend>> list;
    list.push_back(make_host_backend());
#ifdef MXP_HAVE_CUDA
    list.push_back(make_cuda_backend());
#endif
    return list;
}

class HplMxp : public lu::Solver<Backend> {
  public:
    explicit HplMxp(lu::Ranks& ranks) : Solver(ranks, backends()) {
        taper_ = 8;
        energy_seconds_ = 2.5;
    }

    std::string name() const override { return "hpl_mxp"; }
    std::string purpose() const override {
        return "A dense system A x = b to double precision by LU in FP16 or BF16 and iterative refinement, "
               "in "
               "TFLOP/s by HPL-MxP's rules, with residual and factors verified; as an experiment, by LU in "
               "FP8.";
    }

    void options(tenken::Arguments& arguments) override {
        backend_option(arguments, "where to factorise; host emulates the formats");
        arguments.integer("n", n_, 0, 4000000, "order of A; 0: the back end's default");
        arguments.integer("nb", nb_, 0, 8192,
                          "block size, columns eliminated together; 0: the back end's default");
        arguments.choice("low", low_text_, {"fp16", "bf16", "fp8"},
                         "operands of the update; sums are FP32. fp8 (E4M3) is below the 16 bits that the "
                         "rules require: its results are called lu_fp8");
        arguments.choice(
            "matrix", matrix_text_, {"mild", "dominant"},
            "diagonal of sqrt(N), or of N / 2, which makes it diagonally dominant: for tests only, "
            "by the rules");
        arguments.integer("seed", seed_, 0, 2147483647, "of the matrix");
        arguments.integer(
            "maximum-refinements", maximum_refinements_, 0, 1000,
            "number of corrections above which the run fails; 0: 5 for fp16, 8 for bf16, 24 for fp8");
        step_options(arguments);
        last_options(arguments);
    }

    std::vector<tenken::FaultKind> faults() const override {
        return {{"skip-updates", "all trailing updates are skipped", "", "", true},
                {"skip-update", "one trailing update is skipped", "", "", true},
                {"zero-l", "one panel of L is zero below its diagonal block", "", "", true},
                {"lost-tile", "one square tile of one update is not written", "", "", true}};
    }

    void prepare(const tenken::Arguments& arguments) override {
        choose_backend();
        low_ = low_text_ == "fp16" ? Low::fp16 : low_text_ == "bf16" ? Low::bf16 : Low::fp8;
        ranks_.make_grid(1, ranks_.size(), false);
        backend_->prepare(arguments, ranks_, low_);
        if (n_ == 0) n_ = backend_->usual_n();
        if (nb_ == 0) nb_ = backend_->usual_nb();
        if (maximum_refinements_ == 0) maximum_refinements_ = usual_refinements(low_);
        if (nb_ % backend_->tile() != 0)
            throw arguments.error("nb", "a multiple of " + std::to_string(backend_->tile()));
        if (n_ <= nb_) throw arguments.error("n", "above NB, which is " + std::to_string(nb_));
        const std::uint64_t needed = backend_->needed_bytes(n_, nb_, ranks_.size());
        if (!fits_everywhere(needed, 0.98)) throw arguments.error("n", memory_expectation(needed));
    }

    void measure(tenken::Run& run) override {
        tenken::Document& document = run.document;
        matrix_ = {static_cast<std::uint64_t>(seed_), n_,
                   matrix_text_ == "mild" ? std::sqrt(static_cast<double>(n_)) : static_cast<double>(n_) / 2};
        const std::unique_ptr<Engine> engine = backend_->make(n_, nb_, ranks_);
        steps_ = lu::plan_steps(engine->distribution().n, nb_, taper_, engine->tile());
        measure_ceiling(document, *engine, run.warmup_seconds);
        set_break(*engine);
        load_kernels(*engine);

        const bool rules = low_ != Low::fp8;
        tenken::Metric rate = metric(rules ? "hpl_mxp" : "lu_fp8");
        tenken::Metric residual = metric("residual");
        tenken::Metric errors = metric("factor_error");
        tenken::Metric refinements = metric("refinements");
        std::vector<double> seconds;
        Solved last;
        for (std::int64_t i = 0; i < run.repetitions; ++i) {
            backend_->watch([&] { last = solve_once(*engine); });
            if (last.factored.singular >= 0) {
                document.fail("no pivot in column " + std::to_string(last.factored.singular) +
                              ": a matrix of this class has one");
                return;
            }
            seconds.push_back(last.seconds);
            residual.samples.push_back(last.refined.scaled);
            refinements.samples.push_back(last.refined.refinements);
            ranks_.alive("verifying the factors");
            FactorError error = engine->factor_error(matrix_, ranks_);
            Conversions conversions = engine->conversions();
            const auto spoils = [&](const tenken::Verified& of, bool first) {
                return i == 0 && tenken::injected_error(run.fault, of, first) > 0;
            };
            if (spoils(catalogue::factors(), true)) error = spoil_element(*engine);
            if (spoils(catalogue::small_operands(), false)) conversions.small = conversions.all;
            if (spoils(catalogue::overflowed(), false)) conversions.overflowed = 1;
            errors.samples.push_back(error.ratio);
            check(document, last, error, conversions, i);
            print_result(last, error);
        }
        rate.timed(seconds, {{"operations", lu::operations(static_cast<double>(n_))}});
        document.add(rate);
        add_finite(document, residual);
        add_finite(document, errors);
        document.add(refinements);
        report_conversions(document, *engine);
        report_phases(document, last);
        if (broken_ == Broken::none)
            measure_energy(document, n_, metric("energy"), [&] { return solve_once(*engine).seconds; });
        engine->describe(document);
        report(document);
        document.path("algorithm", "LU without pivots, classical iterative refinement");
    }

  private:
    std::string grid() const { return "1x" + std::to_string(ranks_.size()); }

    std::string key() const {
        return "N " + std::to_string(n_) + ", NB " + std::to_string(nb_) + ", " + grid() + ", " + low_text_;
    }

    void set_break(Engine& engine) {
        const std::string& kind = injected_fault();
        broken_ = kind == "skip-updates"  ? Broken::skip_updates
                  : kind == "skip-update" ? Broken::skip_update
                  : kind == "zero-l"      ? Broken::zero_l
                  : kind == "lost-tile"   ? Broken::lost_tile
                                          : Broken::none;
        engine.breaks(broken_, steps_[steps_.size() / 2]);
    }

    tenken::Metric metric(const std::string& name) const {
        return metric_at(name, {{"grid", tenken::Json(grid())},
                                {"low", tenken::Json(low_text_)},
                                {"matrix", tenken::Json(matrix_text_)},
                                {"n", tenken::Json(n_)},
                                {"nb", tenken::Json(nb_)}});
    }

    static void add_finite(tenken::Document& document, const tenken::Metric& made) {
        for (double sample : made.samples)
            if (!std::isfinite(sample)) return;  // reported by the verification
        document.add(made);
    }

    /// The ceiling: products of the update's shape with K = NB, on operands like those of the factorisation.
    void measure_ceiling(tenken::Document& document, Engine& engine, double heat) {
        ranks_.alive("warming up");
        measure_products(document, metric("product"),
                         [&](double& flops) { return engine.time_products(matrix_, heat, products, flops); });
    }

    /// Kernels are loaded when they are first used.
    void load_kernels(Engine& engine) {
        engine.breaks(Broken::none, steps_.front());
        engine.generate(matrix_);
        factorise_steps(engine, steps_, false, std::min(n_, 2 * nb_));
        set_break(engine);
    }

    Solved solve_once(Engine& engine) {
        Solved done;
        ranks_.alive("generating the matrix");
        engine.finish();
        ranks_.barrier();
        const double begin = tenken::now_seconds();
        engine.generate(matrix_);
        engine.finish();
        done.convert = tenken::now_seconds() - begin;
        done.factored = factorise_steps(engine, steps_, false, engine.distribution().n);
        const double factored = tenken::now_seconds();
        done.refined =
            refine(engine, ranks_, matrix_, target_residual, static_cast<int>(maximum_refinements_));
        ranks_.barrier();
        const double end = tenken::now_seconds();
        done.refine = end - factored;
        done.seconds = ranks_.largest({end - begin}).front();
        return done;
    }

    /// Changes an element of U by a little more than twice the bound of its row and group, and verifies
    /// again.
    FactorError spoil_element(Engine& engine) {
        const std::int64_t width = engine.tile();
        const std::int64_t column = n_ / 2;
        const std::int64_t row = n_ / 4;
        engine.spoil(row, column, 2.01 * engine.bound_at(row, column / width));
        return engine.factor_error(matrix_, ranks_);
    }

    void check(tenken::Document& document, const Solved& done, const FactorError& error,
               const Conversions& conversions, std::int64_t repetition) const {
        const tenken::Metric made = metric("hpl_mxp");
        document.add(check_of(catalogue::residual(), made, repetition, done.refined.scaled));
        tenken::Check refined =
            check_of(catalogue::refined(), made, repetition, done.refined.scaled / target_residual);
        refined.at.emplace_back("bits", tenken::Json(64));
        refined.at.emplace_back("refinements", tenken::Json(maximum_refinements_));
        document.add(refined);
        tenken::Json residuals = tenken::Json::array();
        for (double one : done.refined.history) residuals.push(tenken::number_or_name(one));
        document.path("residuals", residuals);
        tenken::Check factors = check_of(catalogue::factors(), made, repetition, error.ratio);
        if (!factors.passed()) {
            factors.first_wrong = tenken::Json::object().set("row", error.row).set("group", error.group);
            factors.first_wrong.set("bound", tenken::number_or_name(error.bound));
        }
        document.add(factors);
        const double all = ranks_sum(conversions.all);
        document.add(check_of(catalogue::small_operands(), made, repetition,
                              all > 0 ? ranks_sum(conversions.small) / all : 1));
        document.add(check_of(catalogue::overflowed(), made, repetition, ranks_sum(conversions.overflowed)));
    }

    double ranks_sum(double mine) const {
        if (ranks_.size() > 1) ranks_.sum_in_row(&mine, 1);
        return mine;
    }

    void report_conversions(tenken::Document& document, Engine& engine) {
        const Conversions found = engine.conversions();
        const double all = ranks_sum(found.all);
        tenken::Metric share = metric("small_share");
        share.samples = {all > 0 ? 100 * ranks_sum(found.small) / all : 100};
        document.add(share);
    }

    void print_result(const Solved& done, const FactorError& error) const {
        if (!ranks_.speaks()) return;
        std::printf(
            "%s: %.3f s, %.2f TFLOP/s, %d refinements, scaled residual %.3e, factors %.3f of the bound\n",
            key().c_str(), done.seconds, lu::operations(static_cast<double>(n_)) / done.seconds / 1e12,
            done.refined.refinements, done.refined.scaled, error.ratio);
        std::fflush(stdout);
    }

    void report_phases(tenken::Document& document, const Solved& done) {
        const lu::StepTimes sum = done.factored.sum();
        add_phases(document, metric("phase"),
                   {{"convert", done.convert},
                    {"panel", sum.panel},
                    {"ahead", sum.ahead},
                    {"broadcast", sum.broadcast},
                    {"solve", sum.solve},
                    {"update", sum.update},
                    {"exposed", sum.idle + done.factored.first_panel},
                    {"refine", done.refine},
                    {"refine_residuals", done.refined.residual_seconds},
                    {"refine_corrections", done.refined.correction_seconds}});
    }

    std::int64_t n_ = 0;
    std::int64_t nb_ = 0;
    std::string low_text_ = "fp16";
    Low low_ = Low::fp16;
    std::string matrix_text_ = "mild";
    Matrix matrix_ = {0, 0, 0};
    std::int64_t maximum_refinements_ = 0;
    Broken broken_ = Broken::none;
    std::vector<lu::Step> steps_;
};

}  // namespace

}  // namespace mxp

int main(int argc, char** argv) {
    const std::unique_ptr<lu::Ranks> ranks = lu::launched_ranks("hpl_mxp");
    mxp::HplMxp program(*ranks);
    return tenken::run_program(program, argc, argv, *ranks);
}
