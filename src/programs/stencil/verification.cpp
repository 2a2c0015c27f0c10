// The verification of stencil: a small grid compared with the formula, and the last pass of the large one.
#include <algorithm>
#include <cmath>
#include <limits>

#include "catalogue/stencil.h"
#include "programs/stencil/reference.h"
#include "programs/stencil/stencil.h"

namespace stencil {

namespace {

/// One in this many cells is compared.
tenken::At cells_compared(bool every) {
    return every ? tenken::At() : tenken::At{{"cells", tenken::Json(61)}};
}

/// Injected into every part, larger in each: the first wrong cell is in the first one, the largest error in
/// the last.
double error_of(const Part& part, double injected) {
    return injected * (1 + part.number());
}

/// Changes the last cell of a plane that is not fixed.
template <typename T>
void spoil(Part& part, int array, long z, double factor) {
    const Grid grid = part.layout().grid;
    std::vector<T> cells(static_cast<std::size_t>(grid.nx) * static_cast<std::size_t>(grid.ny));
    part.read(array, {z, z + 1}, cells.data());
    cells[cells.size() - static_cast<std::size_t>(grid.nx) - 2] *= static_cast<T>(factor);
    part.write(array, z, cells.data());
}

}  // namespace

void Stencil::compare_alone(const Plan& plan, const Parts& parts, Solver& solver) {
    solver.block(plan.temporal_block);
    solver.wait();
    const tenken::ErrorScan errors = parts.front()->compare_pass(1 - solver.current(), plan.temporal_block);
    const bool step = plan.temporal_block == 1;
    run_->document.add(errors.check(step ? catalogue::alone_step() : catalogue::alone_block(),
                                    parts.front()->subject(), cells_compared(step)));
}

void Stencil::compare_passes(const std::string& name, const Plan& plan, const Parts& parts, Solver& solver) {
    for (int steps = 1; steps <= std::min(plan.temporal_block, plan.bt); ++steps) {
        solver.block(steps);
        solver.wait();
        tenken::ErrorScan errors(0);
        const tenken::Verified of = steps == 1 ? catalogue::step() : catalogue::block();
        for (const std::unique_ptr<Part>& part : parts) {
            const double error = error_of(*part, tenken::injected_error(run_->fault, of, false));
            const long z = std::min(part->layout().slab.end(), plan_.grid.nz - 1) - 1;
            if (error > 0 && problem_.element_bytes == sizeof(double))
                spoil<double>(*part, solver.current(), z, 1 + error);
            else if (error > 0)
                spoil<float>(*part, solver.current(), z, 1 + error);
            errors.merge(part->compare_pass(1 - solver.current(), steps));
        }
        tenken::At at = cells_compared(steps == 1);
        at.emplace_back("exchange", tenken::Json(name));
        add_check(errors.check(of, all(), at));
    }
}

void Stencil::verify(const std::string& name) {
    Plan plan = plan_;
    plan.temporal_block = problem_.temporal_block;
    if (!exchanging()) plan.bt = std::max(plan.bt, plan.temporal_block);
    const int parts = exchanging() ? plan_.parts : 1;
    plan.parts = parts;
    // Thick enough to overlap if the measured slabs do, with the same remainder of planes.
    const long thick = plan_.overlaps() ? 4L * plan.bt + 1 : std::min(plan_.thinnest(), 4L * plan.bt - 1);
    const long each = std::max({thick, static_cast<long>(plan.bt), 3L});
    plan.grid = {75, 53, each * parts + plan_.grid.nz % plan_.parts};
    if (problem_.element_bytes == sizeof(double)) {
        verify_as<double>(name, plan);
    } else {
        verify_as<float>(name, plan);
    }
}

template <typename T>
void Stencil::verify_as(const std::string& name, const Plan& plan) {
    const long steps = 2L * plan.bt + 1;
    const bool connected = name != "none";
    const std::unique_ptr<Exchange> exchange = connected ? make_exchange(name) : nullptr;
    Parts parts;
    if (connected) {
        parts = make_parts(plan, problem_, exchange->memory());
    } else {
        const Layout layout = layout_of(plan.grid, plan.slab(0), plan.bt, sizeof(T));
        parts.push_back(make_part(0, layout, problem_, 0, layout.elements()));
    }
    tenken::Ranks nobody;
    Solver solver(plan, owners_, parts, exchange.get(), connected ? ranks_ : nobody);
    solver.begin();
    if (plan.fault == "cell-nan") {
        const Slab slab = parts.back()->layout().slab;
        spoil<T>(*parts.back(), 0, slab.first + slab.planes / 2, std::numeric_limits<double>::quiet_NaN());
    }
    solver.advance(steps);
    solver.wait();
    const std::vector<T> expected = reference<T>(plan.grid, problem_.points, steps);
    const bool exact = on_host() || STENCIL_HOST_FUSES != 0;
    // On a host that does not fuse multiply and add, differences beyond rounding are errors.
    tenken::ErrorScan errors(exact ? 0 : rounding_bound<T>(steps, problem_.points));
    const std::size_t plane = static_cast<std::size_t>(plan.grid.nx) * static_cast<std::size_t>(plan.grid.ny);
    for (const std::unique_ptr<Part>& part : parts) {
        const Slab slab = part->layout().slab;
        std::vector<T> cells(plane * static_cast<std::size_t>(slab.planes));
        part->read(solver.current(), {slab.first, slab.end()}, cells.data());
        const tenken::Verified of = connected ? catalogue::small() : catalogue::small_alone();
        cells.back() *= static_cast<T>(1 + error_of(*part, tenken::injected_error(run_->fault, of, true)));
        const std::size_t first = plane * static_cast<std::size_t>(slab.first);
        for (std::size_t i = 0; i < cells.size(); ++i) {
            errors.compare(first + i, static_cast<double>(cells[i]),
                           static_cast<double>(expected[first + i]));
        }
    }
    solver.end();
    tenken::Check check = errors.check(connected ? catalogue::small() : catalogue::small_alone(),
                                       connected ? all() : parts.front()->subject(),
                                       {{"exchange", tenken::Json(name)}, {"steps", tenken::Json(steps)}});
    if (errors.passed()) check.error = 0;
    add_check(check);
}

void Stencil::add_check(const tenken::Check& check) {
    run_->document.add(tenken::of_all(check, ranks_));
}

}  // namespace stencil
