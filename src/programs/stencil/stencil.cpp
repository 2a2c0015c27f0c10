// A stencil of 27 or 7 points over many GPUs or ranks: the grid is cut into slabs, halos of bt planes are
// exchanged every bt steps, and every way of exchanging them is measured against one GPU alone.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <sstream>

#include "lib/base/clock.h"
#include "lib/base/energy_pass.h"
#include "lib/base/host.h"
#include "lib/base/launched.h"
#include "lib/base/nvml.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#if defined(TENKEN_HAVE_MPI) && defined(TENKEN_HAVE_CUDA)
#include "lib/mpi/probe.h"
#endif
#include "programs/stencil/gpu_backend.h"
#include "programs/stencil/host_part.h"
#include "programs/stencil/reference.h"
#include "programs/stencil/solver.h"

namespace stencil {

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<GpuBackend> make_gpu_backend() {
    return nullptr;
}
#endif

namespace {

const char* const exchange_names[] = {"none", "host", "p2p", "mpi", "nccl", "nvshmem", "managed"};

/// Mean over all processes of what each of them measured.
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

class Stencil : public tenken::Program {
  public:
    explicit Stencil(tenken::Ranks& ranks) : ranks_(ranks), gpu_(make_gpu_backend()) {}

    std::string name() const override { return "stencil"; }
    std::string purpose() const override {
        return "A stencil of 27 or 7 points on a grid cut into slabs, over GPUs or ranks: Gcell/s (10^9 "
               "cells x steps a "
               "second) with every way of exchanging halos, against one GPU alone; a repetition is a block "
               "of --bt "
               "steps.";
    }

    void options(tenken::Arguments& arguments) override {
        std::vector<std::string> backends = {"host"};
        if (gpu_) backends.push_back("cuda");
        arguments.choice("backend", backend_, backends, "host: OpenMP; cuda: a slab on every GPU");
        arguments.text(
            "exchange", exchanges_text_, "LIST",
            "how halos travel, one after the other: some of " + exchange_list() +
                "; host: through the host's memory, p2p: from GPU to GPU, mpi: messages straight from and to "
                "the arrays, none: one GPU alone is all that is measured");
        arguments.integer("points", points_, 7, 27, "7: the faces, 27: edges and corners too");
        arguments.choice("precision", precision_, {"double", "single"}, "of the cells");
        arguments.integer("nx", nx_, 8, 1 << 20, "cells in x");
        arguments.integer("ny", ny_, 8, 1 << 20, "cells in y");
        arguments.integer("nz", nz_, 3, 1 << 30,
                          "cells in z: of each slab, or with --scaling strong of all together");
        arguments.choice("scaling", scaling_, {"weak", "strong"},
                         "whether --nz counts for each slab or for all");
        arguments.integer("bt", bt_, 1, 64,
                          "steps between two exchanges, which is the number of halo planes");
        arguments.integer("steps", steps_, 1, 1 << 20, "steps of the run whose whole time is reported");
        arguments.real("energy-seconds", energy_seconds_, "s", 0, 600,
                       "how long the pass for energy is at least, 2 for a figure; 0: none");
        arguments.integer(
            "temporal-block", temporal_block_, 0, 8,
            "steps that a kernel does on one reading of the grid; 0: the fastest of those there are");
        arguments.former_name("steps-a-pass", "temporal-block");
        arguments.integer("phase-blocks", phase_blocks_, 1, 10000,
                          "blocks measured without overlap, phase by phase");
        arguments.integer("parts", parts_, 1, 1024, "slabs of each process of the back end host");
        arguments.integer(
            "ranks", asked_ranks_, 0, 1 << 20,
            "how many ranks there must be (a launcher that does not fit the MPI starts single ones); 0: "
            "any");
        arguments.integer("nodes", asked_nodes_, 0, 1 << 20, "on how many nodes the ranks must run; 0: any");
        arguments.real("patience-seconds", patience_seconds_, "s", 1, 3600,
                       "give up when nothing has moved for so long");
        if (gpu_) {
            arguments.heading("GPUs");
            gpu_->options(arguments);
        }
    }

    std::vector<tenken::FaultKind> faults() const override {
        std::vector<tenken::FaultKind> kinds = tenken::rank_faults(true);
        kinds.push_back({"halo-stale", "a halo plane is not renewed", "spoil", "stale"});
        kinds.push_back({"halo-short", "halos are one plane short", "spoil", "short"});
        kinds.push_back({"halo-swapped", "halos hold the planes of the wrong end", "spoil", "swapped"});
        kinds.push_back({"cell-nan", "one cell is not a number", "spoil", "nan"});
        return kinds;
    }

    void prepare(const tenken::Arguments& arguments) override {
        ranks_.set_patience(patience_seconds_);
        plan_.fault = injected_fault();
        if (asked_ranks_ > 0 && ranks_.size() != asked_ranks_) {
            throw std::runtime_error(
                "asked for " + std::to_string(asked_ranks_) + " ranks, there are " +
                std::to_string(ranks_.size()) +
                (ranks_.size() == 1 ? ": the launcher and the MPI do not fit together" : ""));
        }
        const std::vector<std::string> nodes = ranks_.nodes();
        const std::size_t count =
            std::max<std::size_t>(1, std::set<std::string>(nodes.begin(), nodes.end()).size());
        if (asked_nodes_ > 0 && count != static_cast<std::size_t>(asked_nodes_)) {
            throw std::runtime_error("asked for " + std::to_string(asked_nodes_) +
                                     " nodes, the ranks run on " + std::to_string(count));
        }
        if (points_ != 7 && points_ != 27) throw arguments.error("points", "7 or 27");
        parse_exchanges(arguments);
        problem_.points = static_cast<int>(points_);
        problem_.element_bytes = precision_ == "double" ? sizeof(double) : sizeof(float);
        if (on_host()) {
            local_parts_ = static_cast<int>(parts_);
            if (local_parts_ > 1 && ranks_.size() > 1) throw arguments.error("parts", "1 with several ranks");
        } else {
            know_each_other();
            gpu_->prepare(arguments, ranks_);
            local_parts_ = static_cast<int>(gpu_->descriptions().size());
        }
        plan_.parts = local_parts_ * ranks_.size();
        plan_.bt = static_cast<int>(bt_);
        plan_.grid = {static_cast<int>(nx_), static_cast<int>(ny_),
                      scaling_ == "weak" ? nz_ * plan_.parts : nz_};
        if (exchanging() && plan_.parts > 1 && plan_.thinnest() < bt_) {
            throw arguments.error("bt", "at most " + std::to_string(plan_.thinnest()) +
                                            ", the planes of the thinnest of " + std::to_string(plan_.parts) +
                                            " slabs");
        }
        if (plan_.thinnest() < 3) {
            throw arguments.error("nz",
                                  "at least 3 planes a slab, " + std::to_string(3 * plan_.parts) + " in all");
        }
        const int maximum = on_host() ? 1 : gpu_->max_temporal_block(problem_);
        if (temporal_block_ > maximum) {
            throw arguments.error("temporal-block",
                                  "0 to " + std::to_string(maximum) + " with these points and this back end");
        }
        require_memory(arguments);
        for (const std::string& name : exchanges_) require_exchange(name);
    }

    void measure(tenken::Run& run) override {
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
            report_gain();
            if (!exchanging()) verify("none");
        } catch (...) {
            report();
            throw;
        }
        report();
    }

    /// Whether the process ends without cleaning up; everything is written then.
    bool leave_at_once() const { return gpu_ && gpu_->leave_at_once(); }

  private:
    static std::string exchange_list() {
        std::string text;
        for (const char* name : exchange_names) text += (text.empty() ? "" : ",") + std::string(name);
        return text;
    }

    bool on_host() const { return backend_ == "host"; }
    bool exchanging() const { return exchanges_.front() != "none"; }

    void parse_exchanges(const tenken::Arguments& arguments) {
        if (exchanges_text_.empty()) exchanges_text_ = "host";
        std::istringstream words(exchanges_text_);
        for (std::string word; std::getline(words, word, ',');) {
            const bool known = std::find(std::begin(exchange_names), std::end(exchange_names), word) !=
                               std::end(exchange_names);
            if (!known || std::count(exchanges_.begin(), exchanges_.end(), word) > 0) {
                throw arguments.error("exchange", "different ones of " + exchange_list());
            }
            if (on_host() && word != "host" && word != "mpi" && word != "none") {
                throw arguments.error("exchange", "host, mpi or none with --backend host");
            }
            exchanges_.push_back(word);
        }
        if (exchanges_.empty() ||
            (exchanges_.size() > 1 && std::count(exchanges_.begin(), exchanges_.end(), "none"))) {
            throw arguments.error("exchange", "none alone, or different ones of " + exchange_list());
        }
    }

    /// What this machine or this way of starting the program cannot do, before anything is allocated.
    void require_exchange(const std::string& name) {
        if (on_host() || name == "none") return;
        if (plan_.parts < 2) {
            throw tenken::Waived(tenken::Waiver::needs_two_gpus,
                                 "1 GPU is selected or here, nothing is exchanged");
        }
        const bool one_process = ranks_.size() == 1;
        if ((name == "mpi" || name == "nvshmem") && one_process) {
            throw tenken::Waived(tenken::Waiver::needs_more_ranks,
                                 name + " wants a rank for each GPU, there is one");
        }
        if (name == "managed" && !one_process) {
            throw std::runtime_error(
                "managed memory is shared by the GPUs of one process: start it without ranks");
        }
#if defined(TENKEN_HAVE_MPI) && defined(TENKEN_HAVE_CUDA)
        if (name == "mpi" && ranks_.rank() == 0) {
            const mpi_p2p::Probe probe = mpi_p2p::probe("messages", "device");
            if (!probe.works) throw tenken::Waived(tenken::Waiver::no_device_buffer_mpi, probe.why_not);
        }
#endif
        gpu_->require(name, ranks_, 2 * part_bytes());
    }

    /// Of one array of the thickest slab.
    std::uint64_t part_bytes() const {
        return problem_.element_bytes *
               layout_of(plan_.grid, plan_.slab(0), plan_.bt, problem_.element_bytes).elements();
    }

    void require_memory(const tenken::Arguments& arguments) const {
        const std::uint64_t part = 2 * part_bytes();
        const auto fail = [&](std::uint64_t asked, std::uint64_t left, const std::string& where) {
            throw arguments.error("nz", "one whose slabs fit: asked " + tenken::format_bytes(asked) +
                                            " for two arrays, at most " + tenken::format_bytes(left) +
                                            " on " + where);
        };
        if (on_host()) {
            const auto here =
                static_cast<std::uint64_t>(local_parts_ > 1 ? local_parts_ : ranks_.local_size());
            const std::uint64_t left = tenken::available_memory_bytes() / 10 * 9;
            if (part * here > left) fail(part * here, left, "the host");
            return;
        }
        for (const tenken::DeviceDescription& device : gpu_->descriptions()) {
            const std::uint64_t left = device.memory_free_bytes / 10 * 9;
            if (part > left) fail(part, left, "gpu" + std::to_string(device.index));
        }
    }

    /// The other ranks' processes are not strangers on the GPU.
    void know_each_other() {
        std::string text;
        for (const std::string& pid : ranks_.gather(std::to_string(getpid()))) text += pid + "\n";
        std::istringstream all(ranks_.broadcast(text));
        std::vector<int> pids;
        for (int pid = 0; all >> pid;) pids.push_back(pid);
        tenken::set_processes_of_run(pids);
    }

    /// @param capacity elements of an array: as many as the thickest slab has, so that all parts have the
    /// same
    std::unique_ptr<Part> make_part(int local, const Layout& layout, const Problem& problem, int number,
                                    std::size_t capacity, const Memory& memory = {}) {
        if (on_host()) return make_host_part(layout, problem, number);
        return gpu_->make_part(static_cast<std::size_t>(local), layout, problem, number, capacity, memory);
    }

    Parts make_parts(const Plan& plan, const Problem& problem, const Memory& memory) {
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

    void begin_timed() {
        if (gpu_ && !on_host()) gpu_->begin_timed();
    }
    void end_timed() {
        if (gpu_ && !on_host()) gpu_->end_timed();
    }

    tenken::Metric metric_of(const std::string& name, const std::string& unit,
                             const tenken::Subject& subject) const {
        tenken::Metric metric;
        metric.name = name;
        metric.unit = unit;
        metric.subject = subject;
        metric.clock = on_host() ? "host" : "device";
        return metric;
    }

    static constexpr const char* no_limit = "a host does not tell its memory clock and channels";

    /// One slab after the other without neighbours, each in its turn while nobody else computes.
    void measure_alone() {
        passes_ = {1};
        if (!on_host() && temporal_block_ != 1) {
            for (int more = 2; more <= gpu_->max_temporal_block(problem_); ++more) passes_.push_back(more);
        }
        double best_rate = 0;
        for (int number = 0; number < plan_.parts; ++number) {
            ranks_.alive("one slab alone");
            const int local = number % local_parts_;
            const bool again = on_host() && local > 0;  // the parts of a process share its threads
            if (owners_[static_cast<std::size_t>(number)] == ranks_.rank() && !again) {
                double copy_gbs = 0;
                if (!on_host()) {
                    const tenken::Metric copy =
                        gpu_->measure_copy(static_cast<std::size_t>(local), run_->warmup_seconds);
                    copy_gbs = tenken::order_statistics(copy.samples, copy.direction).median;
                    run_->document.add(copy, tenken::Limit::unknown("it is itself the limit of the stencil"));
                }
                for (int temporal_block : passes_) {
                    const double rate = measure_one(local, temporal_block, copy_gbs);
                    if (temporal_block_ == 0 ? rate > best_rate : temporal_block == temporal_block_)
                        problem_.temporal_block = temporal_block;
                    best_rate = std::max(best_rate, rate);
                }
            }
            ranks_.barrier();
        }
        if (temporal_block_ > 0) problem_.temporal_block = static_cast<int>(temporal_block_);
        // All do as many steps a pass as the one whose word counts.
        problem_.temporal_block = std::stoi(ranks_.broadcast(std::to_string(problem_.temporal_block)));
        best_alone_ = ranks_.largest({best_rate}).front();
        limit_gcells_ = ranks_.largest({limit_gcells_}).front();
        run_->document.path("temporal_block.alone", problem_.temporal_block);
    }

    /// @return the median rate in Gcell/s
    double measure_one(int local, int temporal_block, double copy_gbs) {
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
        tenken::Metric metric =
            metric_of(temporal_block == 1 ? "alone" : "fused", "Gcell/s", parts.front()->subject());
        metric.samples = tenken::giga_per_second(plan.grid.inner_cells() * plan.bt, seconds);
        metric.at = {{"temporal_block", tenken::Json(temporal_block)}};
        tenken::Limit limit = tenken::Limit::unknown(no_limit);
        if (copy_gbs > 0) {
            const double bytes = 2 * static_cast<double>(problem.element_bytes) / temporal_block;
            limit_gcells_ = std::max(limit_gcells_, copy_gbs / bytes);
            limit =
                tenken::Limit::known(copy_gbs / bytes, "Gcell/s",
                                     "measured: copy bandwidth in this run over " +
                                         std::to_string(2 * problem.element_bytes) + " B a cell and pass");
        }
        run_->document.add(metric, limit);
        if (energy_seconds_ > 0 && !on_host()) measure_energy(local, plan, solver, metric);
        const double rate = tenken::order_statistics(metric.samples, metric.direction).median;
        if (!exchanging()) compare_alone(plan, parts, solver);
        if (local == 0) {
            run_->document.path("alone_gflops.temporal_block=" + std::to_string(temporal_block),
                                rate * flops_of_cell(problem.points));
        }
        return rate;
    }

    /// Of one slab alone, --steps steps at a time.
    void measure_energy(int local, const Plan& plan, Solver& solver, const tenken::Metric& made) {
        tenken::EnergyPass pass;
        const std::int64_t blocks = std::max<std::int64_t>(1, steps_ / plan.bt);
        pass.amount = static_cast<double>(plan.grid.inner_cells()) * static_cast<double>(blocks * plan.bt);
        pass.per_watt_unit = "Gcell/s/W";
        pass.run = [&] {
            const double begin = tenken::now_seconds();
            for (std::int64_t i = 0; i < blocks; ++i) solver.block(plan.bt);
            solver.wait();
            return tenken::now_seconds() - begin;
        };
        tenken::Ranks nobody;
        const tenken::EnergyFound found = tenken::measure_energy(
            gpu_->energy(static_cast<std::size_t>(local)), nobody, energy_seconds_, pass);
        tenken::add_energy(run_->document, nobody, pass, found, made);
    }

    /// Only here where nothing is exchanged: this process alone knows of it.
    void compare_alone(const Plan& plan, const Parts& parts, Solver& solver) {
        solver.block(plan.temporal_block);
        solver.wait();
        const tenken::ErrorScan errors =
            parts.front()->compare_pass(1 - solver.current(), plan.temporal_block);
        run_->document.add(errors.check(
            (plan.temporal_block == 1 ? "every cell one step" : "one in 61 cells two steps") +
            std::string(" after those before, bit for bit, alone, ") + parts.front()->subject().text()));
    }

    void measure_exchange(const std::string& name) {
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

    void warm_up(const std::string& name, const Plan& plan, Solver& solver, bool measured = false) {
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

    /// What is fastest on one GPU alone need not be so when all compute: a block takes as long as the slowest
    /// of them, and kernels near the power cap differ from one moment to the next. So each number of steps a
    /// pass is tried as it will be measured.
    void choose_temporal_block(const std::string& name) {
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

    /// Large grids have cells that no small one has: the last pass of each kind is compared there.
    void compare_passes(const std::string& name, const Plan& plan, const Parts& parts, Solver& solver) {
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

    std::unique_ptr<Exchange> make_exchange(const std::string& name) {
        if (on_host() || name == "mpi") return make_message_exchange(*transport_);
        return gpu_->make_exchange(name, ranks_, *transport_, plan_.parts);
    }

    tenken::Subject all() const { return tenken::Subject::ranks(plan_.parts); }

    void time_blocks(const std::string& name, const Plan& plan, Parts& parts, Solver& solver) {
        solver.wait();
        for (const std::unique_ptr<Part>& part : parts)
            part->begin_marks(static_cast<long>(run_->repetitions));
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

        tenken::Metric metric = metric_of("cells", "Gcell/s", all());
        metric.at = {{"exchange", tenken::Json(name)}};
        metric.samples = tenken::giga_per_second(plan.grid.inner_cells() * plan.bt, seconds);
        tenken::Limit limit = tenken::Limit::unknown(no_limit);
        if (limit_gcells_ > 0) {
            limit = tenken::Limit::known(
                limit_gcells_ * plan.parts, "Gcell/s",
                "measured: copy bandwidth in this run over the bytes of a cell, all GPUs");
        }
        run_->document.add(metric, limit);
        const double rate = tenken::order_statistics(metric.samples, metric.direction).median;
        rates_.emplace_back(name, rate);
        run_->document.path("gflops." + name, rate * flops_of_cell(problem_.points));

        // The parts of one process on the host share its threads.
        const int units = on_host() ? ranks_.size() : plan.parts;
        tenken::Metric efficiency = metric_of("efficiency", "%", all());
        efficiency.at = metric.at;
        for (double one : metric.samples) efficiency.samples.push_back(100 * one / (best_alone_ * units));
        run_->document.add(efficiency,
                           tenken::Limit::unknown("it is itself a fraction of what was measured"));
    }

    void time_total(const std::string& name, const Plan&, Solver& solver) {
        solver.wait();
        const double begin = tenken::now_seconds();
        solver.advance(static_cast<long>(steps_));
        solver.wait();
        tenken::Metric metric = metric_of("total", "s", all());
        metric.clock = "host";
        metric.direction = tenken::Direction::lower;
        metric.statistic = tenken::Statistic::total;
        metric.at = {{"exchange", tenken::Json(name)}};
        metric.samples = ranks_.largest({tenken::now_seconds() - begin});
        run_->document.add(metric, tenken::Limit::unknown("the limit is that of the cells"));
    }

    void time_phases(const std::string& name, const Plan& plan, Solver& solver) {
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
        std::vector<tenken::Metric> all_phases;
        solver.wait();
        for (std::int64_t i = 0; i < phase_blocks_; ++i) {
            blocks.push_back(solver.block_apart(plan.bt));
            ranks_.alive("phases of " + name);
        }
        for (const Named& phase : phases) {
            tenken::Metric metric = metric_of(phase.name, "ms", all());
            metric.clock = "host";
            metric.direction = tenken::Direction::lower;
            metric.at = {{"exchange", tenken::Json(name)}};
            for (const Phases& block : blocks) metric.samples.push_back(1e3 * (block.*phase.part));
            metric.samples = mean(ranks_, metric.samples);
            run_->document.add(metric, tenken::Limit::unknown("a part of a block"));
            all_phases.push_back(metric);
        }
        for (const tenken::Metric& phase : all_phases) {
            tenken::Metric share = phase;
            share.name = "share";
            share.unit = "%";
            share.at.emplace_back("phase", tenken::Json(phase.name));
            for (std::size_t i = 0; i < share.samples.size(); ++i) {
                double sum = 0;
                for (const tenken::Metric& one : all_phases) sum += one.samples[i];
                share.samples[i] *= sum > 0 ? 100 / sum : 0;
            }
            run_->document.add(share, tenken::Limit::unknown("a part of a block"));
        }
    }

    /// By how much the exchange from GPU to GPU is ahead of that through the host.
    void report_gain() {
        double host = 0;
        for (const auto& rate : rates_) host = rate.first == "host" ? rate.second : host;
        for (const auto& rate : rates_) {
            if (host <= 0 || rate.first == "host") continue;
            tenken::Metric metric = metric_of("gain", "%", all());
            metric.statistic = tenken::Statistic::total;
            metric.at = {{"exchange", tenken::Json(rate.first)}};
            metric.samples = {100 * (rate.second / host - 1)};
            run_->document.add(metric, tenken::Limit::unknown("a ratio of two rates"));
        }
    }

    /// A grid cut in the same way, but small, against the formula: three blocks, the last of them a single
    /// step.
    void verify(const std::string& name) {
        Plan plan = plan_;
        plan.temporal_block = problem_.temporal_block;
        if (!exchanging()) plan.bt = std::max(plan.bt, plan.temporal_block);
        const int parts = exchanging() ? plan_.parts : 1;
        plan.parts = parts;
        // As thick as it takes to overlap where the measured slabs do, and with as many planes over.
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
    void verify_as(const std::string& name, const Plan& plan) {
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
        // All terms are positive: each step adds at most the roundings of its own operations.
        const bool exact = on_host() || STENCIL_HOST_FUSES != 0;
        const double bound =
            exact ? 0 : static_cast<double>(steps * 2 * problem_.points) * std::numeric_limits<T>::epsilon();
        tenken::ErrorScan errors(bound);
        const std::size_t plane =
            static_cast<std::size_t>(plan.grid.nx) * static_cast<std::size_t>(plan.grid.ny);
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
    static void put_nan(Part& part, const Plan& plan) {
        std::vector<T> cells(static_cast<std::size_t>(plan.grid.nx) * static_cast<std::size_t>(plan.grid.ny));
        const long z = part.layout().slab.first + part.layout().slab.planes / 2;
        part.read(0, {z, z + 1}, cells.data());
        cells[cells.size() / 2] = std::numeric_limits<T>::quiet_NaN();
        part.write(0, z, cells.data());
    }

    /// The worst of all processes counts.
    void add_check(tenken::Check check) {
        const std::string mine = check.passed() ? "" : check.detail;
        const double error = std::isfinite(check.error) ? check.error : std::numeric_limits<double>::max();
        check.error = ranks_.largest({error}).front();
        for (const std::string& detail : ranks_.gather(mine)) {
            if (check.detail.empty()) check.detail = detail;
        }
        run_->document.add(check);
    }

    void report() {
        tenken::Document& document = run_->document;
        document.placement = tenken::find_placement();
        document.placement.ranks = ranks_.size();
        document.placement.nodes = ranks_.nodes();
        if (gpu_ && !on_host()) gpu_->report(document);
    }

    tenken::Ranks& ranks_;
    std::unique_ptr<GpuBackend> gpu_;
    std::unique_ptr<Transport> transport_;

    std::string backend_ = "host";
    std::string exchanges_text_ = "host";
    std::int64_t points_ = 27;
    std::string precision_ = "double";
    std::int64_t nx_ = 256;
    std::int64_t ny_ = 256;
    std::int64_t nz_ = 256;
    std::string scaling_ = "weak";
    std::int64_t bt_ = 4;
    std::int64_t steps_ = 128;
    double energy_seconds_ = 0;
    std::int64_t temporal_block_ = 0;
    std::int64_t phase_blocks_ = 20;
    std::int64_t parts_ = 1;
    std::int64_t asked_ranks_ = 0;
    std::int64_t asked_nodes_ = 0;
    double patience_seconds_ = 120;

    std::vector<std::string> exchanges_;
    Problem problem_;
    Plan plan_;
    std::vector<int> passes_;  ///< steps a pass that there are kernels for, as asked
    int local_parts_ = 1;
    std::vector<int> owners_;
    tenken::Run* run_ = nullptr;
    double best_alone_ = 0;
    double limit_gcells_ = 0;
    std::vector<std::pair<std::string, double>> rates_;
};

}  // namespace

}  // namespace stencil

int main(int argc, char** argv) {
#if defined(TENKEN_HAVE_MPI) && defined(TENKEN_HAVE_CUDA)
    int code = 0;
    if (mpi_p2p::is_probe(argc, argv, code)) return code;
#endif
    const std::unique_ptr<tenken::Ranks> ranks = tenken::launched_ranks("stencil");
    stencil::Stencil program(*ranks);
    const int result = tenken::run_program(program, argc, argv, *ranks);
    if (program.leave_at_once()) {
        std::fflush(nullptr);
        std::_Exit(result);
    }
    return result;
}
