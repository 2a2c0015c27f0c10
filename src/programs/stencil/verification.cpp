// The verification of stencil: a small grid compared with the formula, and the last pass of the large one.
#include <algorithm>
#include <cmath>
#include <limits>

#include "programs/stencil/reference.h"
#include "programs/stencil/stencil.h"

namespace stencil {

void Stencil::compare_alone(const Plan& plan, const Parts& parts, Solver& solver) {
    solver.block(plan.temporal_block);
    solver.wait();
    const tenken::ErrorScan errors = parts.front()->compare_pass(1 - solver.current(), plan.temporal_block);
    run_->document.add(errors.check(
        (plan.temporal_block == 1 ? "every cell one step" : "one in 61 cells two steps") +
        std::string(" after those before, bit for bit, alone, ") + parts.front()->subject().text()));
}

void Stencil::compare_passes(const std::string& name, const Plan& plan, const Parts& parts, Solver& solver) {
    for (int steps = 1; steps <= std::min(plan.temporal_block, plan.bt); ++steps) {
        solver.block(steps);
        solver.wait();
        tenken::ErrorScan errors(0);
        for (const std::unique_ptr<Part>& part : parts) {
            errors.merge(part->compare_pass(1 - solver.current(), steps));
        }
        add_check(errors.check((steps == 1 ? "every cell one step" : "one in 61 cells two steps") +
                               std::string(" after those before, bit for bit, ") + name));
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
    if (plan.fault == "cell-nan") put_nan<T>(*parts.back(), plan);
    solver.advance(steps);
    solver.wait();
    const std::vector<T> expected = reference<T>(plan.grid, problem_.points, steps);
    const bool exact = on_host() || STENCIL_HOST_FUSES != 0;
    const double bound =
        exact ? 0 : rounding_bound(steps, problem_.points, std::numeric_limits<T>::epsilon());
    tenken::ErrorScan errors(bound);
    const std::size_t plane = static_cast<std::size_t>(plan.grid.nx) * static_cast<std::size_t>(plan.grid.ny);
    for (const std::unique_ptr<Part>& part : parts) {
        const Slab slab = part->layout().slab;
        std::vector<T> cells(plane * static_cast<std::size_t>(slab.planes));
        part->read(solver.current(), {slab.first, slab.end()}, cells.data());
        if (run_->fault == tenken::Fault::element && part->number() == plan.parts - 1) {
            T& one = cells[cells.size() / 2];
            one = static_cast<T>(tenken::with_flipped_bit(static_cast<double>(one)));
        }
        const std::size_t first = plane * static_cast<std::size_t>(slab.first);
        for (std::size_t i = 0; i < cells.size(); ++i) {
            errors.compare(first + i, static_cast<double>(cells[i]),
                           static_cast<double>(expected[first + i]));
        }
    }
    solver.end();
    add_check(errors.check(std::to_string(steps) + " steps of a small grid against one step at a time, " +
                           (exact ? "bit for bit, " : "relative error, ") + name));
}

template <typename T>
void Stencil::put_nan(Part& part, const Plan& plan) {
    std::vector<T> cells(static_cast<std::size_t>(plan.grid.nx) * static_cast<std::size_t>(plan.grid.ny));
    const long z = part.layout().slab.first + part.layout().slab.planes / 2;
    part.read(0, {z, z + 1}, cells.data());
    cells[cells.size() / 2] = std::numeric_limits<T>::quiet_NaN();
    part.write(0, z, cells.data());
}

void Stencil::add_check(tenken::Check check) {
    const std::string mine = check.passed() ? "" : check.detail;
    const double error = std::isfinite(check.error) ? check.error : std::numeric_limits<double>::max();
    check.error = ranks_.largest({error}).front();
    for (const std::string& detail : ranks_.gather(mine)) {
        if (check.detail.empty()) check.detail = detail;
    }
    run_->document.add(check);
}

}  // namespace stencil
