// The report in the format of HPCG's own files, for tools that read those.
#include <cstdio>

#include "programs/hpcg/benchmark.h"

namespace hpcg {

namespace {

/// A title, then lines "Section::Key=value": the form of HPCG 3.1's OutputFile::generate.
class Lines {
  public:
    explicit Lines(const std::string& title) : text_(title + "\n") {}
    void section(const std::string& name) {
        section_ = name;
        text_ += name + "=\n";
    }
    void heading(const std::string& name) {
        section_.clear();
        text_ += name + "=\n";
    }
    void put(const std::string& key, const std::string& value) {
        text_ += (section_.empty() ? "" : section_ + "::") + key + "=" + value + "\n";
    }
    void put(const std::string& key, double value) {
        char text[40];
        std::snprintf(text, sizeof text, "%.6g", value);
        put(key, std::string(text));
    }
    /// Counts are written in full: no digit may be lost.
    void count(const std::string& key, double value) {
        char text[40];
        std::snprintf(text, sizeof text, "%.0f", value);
        put(key, std::string(text));
    }
    const std::string& text() const { return text_; }

  private:
    std::string section_;
    std::string text_;
};

const char* verdict(bool passed) {
    return passed ? "PASSED" : "FAILED";
}

}  // namespace

std::string report_text(const Outcome& run) {
    const Operations operations = run.operations();
    const Traffic traffic = model_traffic(run.totals, run.sets(), run.iterations);
    Lines lines("HPCG-Benchmark");
    lines.put("version", "3.1");
    lines.put("Release date", "March 28, 2019");
    lines.section("Machine Summary");
    lines.count("Distributed Processes", run.ranks);
    lines.count("Threads per processes", run.threads);
    const char* const axes[3] = {"x", "y", "z"};
    lines.section("Global Problem Dimensions");
    for (std::size_t a = 0; a < 3; ++a)
        lines.count(std::string("Global n") + axes[a], run.shape[a] * run.local[a]);
    lines.section("Processor Dimensions");
    for (std::size_t a = 0; a < 3; ++a) lines.count(std::string("np") + axes[a], run.shape[a]);
    lines.section("Local Domain Dimensions");
    for (std::size_t a = 0; a < 2; ++a) lines.count(std::string("n") + axes[a], run.local[a]);
    lines.count("Lower ipz", 0);
    lines.count("Upper ipz", run.shape[2] - 1);
    lines.count("nz", run.local[2]);
    lines.heading("########## Problem Summary  ##########");
    lines.section("Setup Information");
    lines.put("Setup Time", run.setup_seconds);
    lines.section("Linear System Information");
    lines.count("Number of Equations", run.totals[0].rows);
    lines.count("Number of Nonzero Terms", run.totals[0].entries);
    lines.section("Multigrid Information");
    lines.count("Number of coarse grid levels", static_cast<double>(run.totals.size()) - 1);
    lines.put("Coarse Grids", "");
    for (std::size_t level = 1; level < run.totals.size(); ++level) {
        lines.count("Coarse Grids::Grid Level", static_cast<double>(level));
        lines.count("Coarse Grids::Number of Equations", run.totals[level].rows);
        lines.count("Coarse Grids::Number of Nonzero Terms", run.totals[level].entries);
        lines.count("Coarse Grids::Number of Presmoother Steps", 1);
        lines.count("Coarse Grids::Number of Postsmoother Steps", 1);
    }
    lines.heading("########## Memory Use Summary  ##########");
    lines.section("Memory Use Information");
    double bytes = 0;
    for (std::uint64_t one : run.level_bytes) bytes += static_cast<double>(one) * run.ranks;
    lines.put("Total memory used for data (Gbytes)", bytes / 1e9);
    lines.put("Bytes per equation (Total memory / Number of Equations)", bytes / run.totals[0].rows);
    lines.put("Coarse Grids", "");
    for (std::size_t level = 1; level < run.level_bytes.size(); ++level) {
        lines.count("Coarse Grids::Grid Level", static_cast<double>(level));
        lines.put("Coarse Grids::Memory used", static_cast<double>(run.level_bytes[level]) * run.ranks / 1e9);
    }
    lines.heading("########## V&V Testing Summary  ##########");
    const bool spectrum = run.spectrum.plain <= SpectralTest::max_plain &&
                          run.spectrum.preconditioned <= SpectralTest::max_preconditioned;
    lines.section("Spectral Convergence Tests");
    lines.put("Result", verdict(spectrum));
    lines.put("Unpreconditioned", "");
    lines.count("Unpreconditioned::Maximum iteration count", run.spectrum.plain);
    lines.count("Unpreconditioned::Expected iteration count", SpectralTest::max_plain);
    lines.put("Preconditioned", "");
    lines.count("Preconditioned::Maximum iteration count", run.spectrum.preconditioned);
    lines.count("Preconditioned::Expected iteration count", SpectralTest::max_preconditioned);
    lines.section("Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon");
    lines.put("Result", verdict(run.symmetry.product <= 1 && run.symmetry.cycle <= 1));
    lines.put("Departure for SpMV", run.symmetry.product);
    lines.put("Departure for MG", run.symmetry.cycle);
    lines.heading("########## Iterations Summary  ##########");
    lines.section("Iteration Count Information");
    lines.put("Result", verdict(run.converged));
    lines.count("Reference CG iterations per set", reference_iterations);
    lines.count("Optimized CG iterations per set", run.iterations);
    lines.count("Total number of reference iterations", reference_iterations * run.sets());
    lines.count("Total number of optimized iterations", run.iterations * run.sets());
    lines.heading("########## Reproducibility Summary  ##########");
    lines.section("Reproducibility Information");
    lines.put("Result", verdict(run.norms.variance < 1e-6));
    lines.put("Scaled residual mean", run.norms.mean);
    lines.put("Scaled residual variance", run.norms.variance);
    lines.heading("########## Performance Summary (times in sec) ##########");
    lines.section("Benchmark Time Summary");
    lines.put("Optimization phase", run.optimise_seconds);
    lines.put("DDOT", run.phases.dot);
    lines.put("WAXPBY", run.phases.vectors);
    lines.put("SpMV", run.phases.product);
    lines.put("MG", run.phases.cycle);
    lines.put("Total", run.total_seconds);
    lines.section("Floating Point Operations Summary");
    lines.put("Raw DDOT", operations.dot);
    lines.put("Raw WAXPBY", operations.vectors);
    lines.put("Raw SpMV", operations.product);
    lines.put("Raw MG", operations.cycle);
    lines.put("Total", operations.total());
    lines.put("Total with convergence overhead", run.with_convergence());
    lines.section("GB/s Summary");
    lines.put("Raw Read B/W", traffic.read / run.total_seconds / 1e9);
    lines.put("Raw Write B/W", traffic.written / run.total_seconds / 1e9);
    lines.put("Raw Total B/W", (traffic.read + traffic.written) / run.total_seconds / 1e9);
    lines.put(
        "Total with convergence and optimization phase overhead",
        (traffic.read + traffic.written) * reference_iterations / run.iterations / run.rated_seconds() / 1e9);
    lines.section("GFLOP/s Summary");
    lines.put("Raw DDOT", operations.dot / run.phases.dot / 1e9);
    lines.put("Raw WAXPBY", operations.vectors / run.phases.vectors / 1e9);
    lines.put("Raw SpMV", operations.product / run.phases.product / 1e9);
    lines.put("Raw MG", operations.cycle / run.phases.cycle / 1e9);
    lines.put("Raw Total", operations.total() / run.total_seconds / 1e9);
    lines.put("Total with convergence overhead", run.with_convergence() / run.total_seconds / 1e9);
    lines.put("Total with convergence and optimization phase overhead", run.rating());
    lines.section("User Optimization Overheads");
    lines.put("Optimization phase time (sec)", run.optimise_seconds);
    lines.put("Optimization phase time vs reference SpMV+MG time",
              run.optimise_seconds / run.reference_seconds);
    if (run.ranks > 1) {
        lines.section("DDOT Timing Variations");
        lines.put("Min DDOT MPI_Allreduce time", run.reduce_min);
        lines.put("Max DDOT MPI_Allreduce time", run.reduce_max);
        lines.put("Avg DDOT MPI_Allreduce time", run.reduce_mean);
    }
    lines.section("Final Summary");
    if (run.valid()) {
        lines.put("HPCG result is VALID with a GFLOP/s rating of", run.rating());
        lines.put(
            "HPCG 2.4 rating for historical reasons is",
            run.with_convergence() / (run.total_seconds + run.sets() * run.optimise_seconds / 10) / 1e9);
        if (run.total_seconds < official_seconds) {
            lines.put("Results are valid but execution time (sec) is", run.total_seconds);
            lines.put("Official results execution time (sec) must be at least", official_seconds);
        }
    } else {
        lines.put("HPCG result is", "INVALID.");
    }
    return lines.text();
}

}  // namespace hpcg
