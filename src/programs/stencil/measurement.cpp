// The timed part of stencil: one slab alone, and every method of halo exchange.
#include <algorithm>
#include <sstream>

#include "lib/base/clock.h"
#include "lib/base/energy_pass.h"
#include "programs/stencil/host_part.h"
#include "programs/stencil/stencil.h"

namespace stencil {

namespace {

/// Mean over the values of all processes.
std::vector<double> mean(tenken::Ranks& ranks, const std::vector<double>& mine) {
    std::ostringstream text;
    text.precision(17);
    for (double value : mine) text << value << " ";
    std::vector<double> sums(mine.size());
    const std::vector<std::string> all = ranks.gather(text.str());
    for (const std::string& one : all) {
        std::istringstream words(one);
        for (double& sum : sums) {
            double value = 0;
            words >> value;
            sum += value / static_cast<double>(all.size());
        }
    }
    return sums;
}

/// The median rate of a series that counts one thing, in 10^9 a second.
double rate_of(const tenken::Metric& metric) {
    return tenken::median(tenken::giga_per_second(metric.counts.front().second, metric.samples));
}

}  // namespace

void Stencil::measure(tenken::Run& run) {
    run_ = &run;
    tenken::Document& document = run.document;
    document.build.backends = {backend_};
    if (!ranks_.library().empty()) document.build.mpi = ranks_.library();
    transport_ = make_transport(ranks_.size() == 1);
    for (int number = 0; number < plan_.parts; ++number) owners_.push_back(number / local_parts_);
    document.path("slabs", plan_.parts);
    document.path("slab_planes", plan_.slab(0).planes);
    document.path("flops_of_cell", flops_of_cell(problem_.points));
    try {
        measure_alone();
        for (const std::string& name : exchanges_) {
            if (name != "none") measure_exchange(name);
        }
        if (!exchanging()) verify("none");
    } catch (...) {
        tenken::Ranks alone;
        report(alone);
        throw;
    }
    report(ranks_);
}

std::uint64_t Stencil::part_bytes() const {
    return problem_.element_bytes *
           layout_of(plan_.grid, plan_.slab(0), plan_.bt, problem_.element_bytes).elements();
}

std::unique_ptr<Part> Stencil::make_part(int local, const Layout& layout, const Problem& problem, int number,
                                         std::size_t capacity, const Memory& memory) {
    if (on_host()) return make_host_part(layout, problem, number);
    return gpu_->make_part(static_cast<std::size_t>(local), layout, problem, number, capacity, memory);
}

Parts Stencil::make_parts(const Plan& plan, const Problem& problem, const Memory& memory) {
    Parts parts;
    for (int local = 0; local < local_parts_; ++local) {
        const int number = ranks_.rank() * local_parts_ + local;
        const auto layout = [&](int part) {
            return layout_of(plan.grid, plan.slab(part), plan.bt, problem.element_bytes);
        };
        parts.push_back(make_part(local, layout(number), problem, number, layout(0).elements(), memory));
    }
    return parts;
}

void Stencil::measure_alone() {
    passes_ = {1};
    if (!on_host() && temporal_block_ != 1) {
        for (int more = 2; more <= gpu_->max_temporal_block(problem_); ++more) passes_.push_back(more);
    }
    double best_rate = 0;
    double copy_rate = 0;
    for (int number = 0; number < plan_.parts; ++number) {
        ranks_.alive("one slab alone");
        const int local = number % local_parts_;
        const bool again = on_host() && local > 0;  // the parts of a process share its threads
        if (owners_[static_cast<std::size_t>(number)] == ranks_.rank() && !again) {
            if (!on_host()) {
                const tenken::Metric copy =
                    gpu_->measure_copy(static_cast<std::size_t>(local), run_->warmup_seconds);
                copy_rate = std::max(copy_rate, rate_of(copy));
                run_->document.add(copy);
            }
            for (int temporal_block : passes_) {
                const double rate = measure_one(local, temporal_block);
                if (temporal_block_ == 0 ? rate > best_rate : temporal_block == temporal_block_)
                    problem_.temporal_block = temporal_block;
                best_rate = std::max(best_rate, rate);
            }
        }
        ranks_.barrier();
    }
    if (temporal_block_ > 0) problem_.temporal_block = static_cast<int>(temporal_block_);
    // All use the number of steps per pass of the deciding process.
    problem_.temporal_block = std::stoi(ranks_.broadcast(std::to_string(problem_.temporal_block)));
    if (ranks_.size() > 1) {  // the document has the slabs of one process
        const std::vector<double> fastest = ranks_.largest({best_rate, copy_rate});
        run_->document.path("fastest_alone_gcells", fastest[0]);
        if (!on_host()) run_->document.path("fastest_copy_gbs", fastest[1]);
    }
    run_->document.path("temporal_block.alone", problem_.temporal_block);
}

double Stencil::measure_one(int local, int temporal_block) {
    Plan plan;
    plan.grid = {plan_.grid.nx, plan_.grid.ny, plan_.slab(0).planes};
    plan.bt = (std::max(plan_.bt, temporal_block) + temporal_block - 1) / temporal_block * temporal_block;
    plan.temporal_block = temporal_block;
    Problem problem = problem_;
    problem.temporal_block = temporal_block;
    Parts parts;
    const Layout layout = layout_of(plan.grid, plan.slab(0), 0, problem.element_bytes);
    parts.push_back(make_part(local, layout, problem, 0, layout.elements()));
    tenken::Ranks nobody;
    Solver solver(plan, {0}, parts, nullptr, nobody);
    solver.begin();
    tenken::warm_up(run_->warmup_seconds, [&] {
        solver.block(plan.bt);
        solver.wait();
    });
    begin_timed();
    parts.front()->begin_marks(static_cast<long>(run_->repetitions));
    for (std::int64_t i = 0; i < run_->repetitions; ++i) {
        solver.block(plan.bt);
        parts.front()->mark();
    }
    const std::vector<double> seconds = parts.front()->between_marks();
    end_timed();
    tenken::Metric metric = metric_of(temporal_block == 1 ? "alone" : "fused", parts.front()->subject());
    metric.timed(seconds, {{"cells", plan.grid.inner_cells() * plan.bt}});
    metric.at = {{"temporal_block", tenken::Json(temporal_block)}};
    run_->document.add(metric);
    // there is one set of host sensors per node
    if (energy_seconds_ > 0 && (!on_host() || (ranks_.local_rank() == 0 && host_meter_.there()))) {
        tenken::Metric energy = metric_of("power", metric.subject);
        energy.at = metric.at;
        measure_energy(local, plan, solver, energy);
    }
    if (!exchanging()) compare_alone(plan, parts, solver);
    return rate_of(metric);
}

void Stencil::measure_energy(int local, const Plan& plan, Solver& solver, const tenken::Metric& made) {
    tenken::EnergyPass pass;
    const std::int64_t blocks = std::max<std::int64_t>(1, steps_ / plan.bt);
    pass.amount = static_cast<double>(plan.grid.inner_cells()) * static_cast<double>(blocks * plan.bt);
    pass.counted = "cells";
    pass.run = [&] {
        const double begin = tenken::now_seconds();
        for (std::int64_t i = 0; i < blocks; ++i) solver.block(plan.bt);
        solver.wait();
        return tenken::now_seconds() - begin;
    };
    tenken::Ranks nobody;
    tenken::Meter& meter =
        on_host() ? static_cast<tenken::Meter&>(host_meter_) : gpu_->energy(static_cast<std::size_t>(local));
    const tenken::EnergyFound found = tenken::measure_energy(meter, nobody, energy_seconds_, pass);
    tenken::add_energy(run_->document, nobody, pass, found, made);
}

void Stencil::measure_exchange(const std::string& name) {
    choose_temporal_block(name);
    ranks_.alive("verification, " + name);
    verify(name);
    ranks_.alive("measuring " + name);
    Plan plan = plan_;
    plan.temporal_block = problem_.temporal_block;
    plan.fault = "none";
    const std::unique_ptr<Exchange> exchange = make_exchange(name);
    Parts parts = make_parts(plan, problem_, exchange->memory());
    Solver solver(plan, owners_, parts, exchange.get(), ranks_);
    solver.begin();
    warm_up(name, plan, solver, true);
    begin_timed();
    time_blocks(name, plan, parts, solver);
    time_total(name, plan, solver);
    time_phases(name, plan, solver);
    end_timed();
    compare_passes(name, plan, parts, solver);
    run_->document.path("exchange." + name, exchange->path());
    solver.end();
}

void Stencil::warm_up(const std::string& name, const Plan& plan, Solver& solver, bool measured) {
    const double begin = tenken::now_seconds();
    for (long times = 1;
         times <= 2 || ranks_.largest({tenken::now_seconds() - begin}).front() < run_->warmup_seconds;
         ++times) {
        solver.block(plan.bt);
        solver.wait();
        ranks_.alive("warming up " + name);
        if (times == 2 && measured && ranks_.rank() == ranks_.size() - 1) {
            tenken::end_this_rank(injected_fault());
        }
    }
}

void Stencil::choose_temporal_block(const std::string& name) {
    if (passes_.size() < 2 || temporal_block_ != 0) return;
    constexpr int blocks = 20;
    std::vector<double> seconds;
    for (const int temporal_block : passes_) {
        Plan plan = plan_;
        plan.temporal_block = temporal_block;
        plan.fault = "none";
        Problem problem = problem_;
        problem.temporal_block = temporal_block;
        const std::unique_ptr<Exchange> exchange = make_exchange(name);
        Parts parts = make_parts(plan, problem, exchange->memory());
        Solver solver(plan, owners_, parts, exchange.get(), ranks_);
        solver.begin();
        warm_up(name, plan, solver);
        const double begin = tenken::now_seconds();
        for (int i = 0; i < blocks; ++i) {
            solver.block(plan.bt);
            ranks_.alive("trying " + std::to_string(temporal_block) + " steps a pass, " + name);
        }
        solver.wait();
        seconds.push_back(ranks_.largest({tenken::now_seconds() - begin}).front());
        run_->document.path(
            "tried." + name + ".temporal_block=" + std::to_string(temporal_block),
            tenken::giga_per_second(plan.grid.inner_cells() * plan.bt * blocks, seconds).back());
        solver.end();
    }
    const auto fastest = std::min_element(seconds.begin(), seconds.end());
    problem_.temporal_block = passes_[static_cast<std::size_t>(fastest - seconds.begin())];
    run_->document.path("temporal_block." + name, problem_.temporal_block);
}

std::unique_ptr<Exchange> Stencil::make_exchange(const std::string& name) {
    if (on_host() || name == "mpi") return make_message_exchange(*transport_);
    return gpu_->make_exchange(name, ranks_, *transport_, plan_.parts);
}

void Stencil::time_blocks(const std::string& name, const Plan& plan, Parts& parts, Solver& solver) {
    solver.wait();
    for (const std::unique_ptr<Part>& part : parts) part->begin_marks(static_cast<long>(run_->repetitions));
    for (std::int64_t i = 0; i < run_->repetitions; ++i) {
        solver.block(plan.bt);
        for (const std::unique_ptr<Part>& part : parts) part->mark();
        ranks_.alive("measuring " + name);
    }
    std::vector<double> seconds(static_cast<std::size_t>(run_->repetitions));
    for (const std::unique_ptr<Part>& part : parts) {
        const std::vector<double> mine = part->between_marks();
        for (std::size_t i = 0; i < mine.size(); ++i) seconds[i] = std::max(seconds[i], mine[i]);
    }
    solver.wait();
    seconds = ranks_.largest(seconds);

    tenken::Metric metric = metric_of("cells", all());
    metric.at = {{"exchange", tenken::Json(name)}};
    metric.timed(seconds, {{"cells", plan.grid.inner_cells() * plan.bt}});
    run_->document.add(metric);
}

void Stencil::time_total(const std::string& name, const Plan&, Solver& solver) {
    solver.wait();
    const double begin = tenken::now_seconds();
    solver.advance(static_cast<long>(steps_));
    solver.wait();
    tenken::Metric metric = metric_of("total", all());
    metric.clock = "host";
    metric.at = {{"exchange", tenken::Json(name)}};
    metric.timed(ranks_.largest({tenken::now_seconds() - begin}));
    run_->document.add(metric);
}

void Stencil::time_phases(const std::string& name, const Plan& plan, Solver& solver) {
    struct Named {
        const char* name;
        double Phases::* part;
    };
    const Named phases[] = {{"compute", &Phases::compute},
                            {"pack", &Phases::pack},
                            {"halo_node", &Phases::halo_node},
                            {"halo_net", &Phases::halo_net},
                            {"sync", &Phases::sync}};
    std::vector<Phases> blocks;
    solver.wait();
    for (std::int64_t i = 0; i < phase_blocks_; ++i) {
        blocks.push_back(solver.block_apart(plan.bt));
        ranks_.alive("phases of " + name);
    }
    for (const Named& phase : phases) {
        tenken::Metric metric = metric_of(phase.name, all());
        metric.clock = "host";
        metric.at = {{"exchange", tenken::Json(name)}};
        std::vector<double> seconds;
        for (const Phases& block : blocks) seconds.push_back(block.*phase.part);
        metric.timed(mean(ranks_, seconds));
        run_->document.add(metric);
    }
}

}  // namespace stencil
