// The common part of programs that solve a dense system A x = b: options, the ceiling, the energy pass, the
// phases, and the end of the document.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/energy_pass.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#include "lib/base/rank_backend.h"
#include "lib/lu/factor.h"
#include "lib/lu/residual.h"

namespace lu {

/// Counted operations, independent of the algorithm: (2/3) N^3 + (3/2) N^2.
inline double operations(double n) {
    return 2.0 / 3.0 * n * n * n + 1.5 * n * n;
}

/// @tparam Backend derived from tenken::RankBackend
template <typename Backend>
class Solver : public tenken::Program {
  public:
    std::int64_t default_repetitions() const override { return 3; }

  protected:
    using Backends = std::vector<std::unique_ptr<Backend>>;
    using Coordinates = std::vector<std::pair<std::string, tenken::Json>>;
    static constexpr int products = 10;

    /// @param backends the last one is the default
    Solver(Ranks& ranks, Backends backends)
        : ranks_(ranks), backends_(std::move(backends)), backend_name_(backends_.back()->name()) {}

    void backend_option(tenken::Arguments& arguments, const std::string& help) {
        std::vector<std::string> names;
        for (const auto& backend : backends_) names.push_back(backend->name());
        arguments.choice("backend", backend_name_, names, help);
    }
    void step_options(tenken::Arguments& arguments) {
        arguments.choice("look-ahead", look_ahead_, {"on", "off"},
                         "factorise the next panel during the update, or after it");
        arguments.integer("taper", taper_, 0, 1000,
                          "halve the block width once fewer than this many block widths remain; 0: never");
    }
    /// The last common ones, then those of the back ends.
    void last_options(tenken::Arguments& arguments) {
        arguments.real("energy-seconds", energy_seconds_, "s", 0, 600,
                       "minimum duration of the energy pass; 0: none");
        arguments.real("patience-seconds", patience_, "s", 1, 36000,
                       "abort after this time without a message from other ranks");
        for (const auto& backend : backends_) backend->options(arguments);
    }
    void choose_backend() {
        for (const auto& backend : backends_)
            if (backend->name() == backend_name_) backend_ = backend.get();
        ranks_.set_patience(patience_);
    }

    /// Whether every rank's memory has room for its engine. @param needed bytes of this rank
    bool fits_everywhere(std::uint64_t needed, double part) const {
        const bool here = static_cast<double>(needed) <= part * static_cast<double>(backend_->free_bytes());
        return ranks_.largest({here ? 0.0 : 1.0}).front() == 0;
    }
    std::string memory_expectation(std::uint64_t needed) const {
        return "what fits into memory: requested " + tenken::format_bytes(needed) + ", free " +
               tenken::format_bytes(backend_->free_bytes()) + " (of this rank)";
    }

    Factored factorise_steps(Stepper& stepper, const std::vector<Step>& steps, bool spoil,
                             std::int64_t last_column) const {
        return factorise(stepper, ranks_, steps, look_ahead_ == "on", spoil, last_column);
    }

    tenken::Metric metric_at(const std::string& name, Coordinates at) const {
        tenken::Metric made;
        made.name = name;
        made.subject = ranks_.size() > 1 ? tenken::Subject::ranks(ranks_.size()) : backend_->subject();
        made.at = std::move(at);
        return made;
    }
    std::string lane_clock() const { return backend_name_ == "cuda" ? "device" : "host"; }

    /// The attainable rate: products of the shape of the first update, if there is anything to multiply.
    /// @param time returns the seconds of each product of this rank, and their operations
    template <typename Time>
    void measure_products(tenken::Document& document, tenken::Metric product, const Time& time) {
        double flops = 0;
        std::vector<double> seconds;
        backend_->watch([&] { seconds = time(flops); });
        seconds.resize(products, 0);  // a rank may have nothing to multiply
        double total = 0;
        for (const std::string& text : ranks_.gather(tenken::Json(flops).dump()))
            total += std::atof(text.c_str());
        total = ranks_.largest({total}).front();
        if (total <= 0) return;
        product.clock = lane_clock();
        product.timed(ranks_.largest(seconds), {{"operations", total}});
        document.add(product);
    }

    /// @param run solves once; returns the seconds of the slowest rank
    /// @param made with its coordinates
    void measure_energy(tenken::Document& document, std::int64_t n, const tenken::Metric& made,
                        std::function<double()> run) {
        if (energy_seconds_ == 0 || !tenken::measured_by_all(backend_->energy(), ranks_)) return;
        tenken::EnergyPass pass;
        pass.amount = operations(static_cast<double>(n));
        pass.run = std::move(run);
        const tenken::EnergyFound found =
            tenken::measure_energy(*backend_->energy(), ranks_, energy_seconds_, pass);
        tenken::add_energy(document, ranks_, pass, found, made);
    }

    /// @param phase with name and the coordinates of the case @param parts seconds by name
    void add_phases(tenken::Document& document, const tenken::Metric& phase,
                    const std::vector<std::pair<const char*, double>>& parts) const {
        for (const auto& part : parts) {
            tenken::Metric made = phase;
            made.at.emplace_back("part", tenken::Json(std::string(part.first)));
            made.clock = lane_clock();
            made.timed({part.second});
            document.add(made);
        }
    }

    /// A verification of a repetition. @param made with the coordinates of the case @param repetition from 0
    static tenken::Check check_of(const tenken::Verified& of, const tenken::Metric& made,
                                  std::int64_t repetition, double error) {
        tenken::Check check = {of, made.subject, made.at, error};
        check.at.emplace_back("repetition", tenken::Json(repetition + 1));
        return check;
    }

    /// Build, placement and the back end's devices.
    void report(tenken::Document& document) {
        for (const auto& backend : backends_) document.build.backends.push_back(backend->name());
        if (!ranks_.library().empty()) document.build.mpi = ranks_.library();
        document.placement = tenken::find_placement();
        document.placement.ranks = ranks_.size();
        document.placement.nodes = ranks_.nodes();
        document.path("backend", backend_name_);
        backend_->report(document, ranks_);
    }

    Ranks& ranks_;
    Backends backends_;
    Backend* backend_ = nullptr;
    std::string backend_name_;
    std::string look_ahead_ = "on";
    std::int64_t taper_ = 0;
    std::int64_t seed_ = 1;
    double energy_seconds_ = 0;

  private:
    double patience_ = 300;
};

}  // namespace lu
