// The Himeno benchmark: Jacobi iterations of a pressure equation with 19 points, on the host or on GPUs with
// the arrays in device, managed or malloc memory.
#include "catalogue/himeno.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "lib/base/clock.h"
#include "lib/base/copy_gpu.h"
#include "lib/base/host.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#include "lib/base/sweep.h"
#include "programs/himeno/solver.h"

namespace himeno {

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<GpuSolvers> make_gpu_solvers() {
    return nullptr;
}
#endif

namespace {

const std::vector<std::string> sizes = {"XS", "S", "M", "L", "XL", "XXL"};

Grid grid_of(const std::string& size) {
    static const std::map<std::string, Grid> grids = {{"XS", {32, 32, 64}},     {"S", {64, 64, 128}},
                                                      {"M", {128, 128, 256}},   {"L", {256, 256, 512}},
                                                      {"XL", {512, 512, 1024}}, {"XXL", {1024, 1024, 2048}}};
    return grids.at(size);
}

/// Iterations of the verification.
constexpr long checked = 2;

/// The pressure after `checked` iterations in double precision, and the gosa of each, directly from the
/// formulas.
struct Reference {
    tenken::Buffer pressure;
    std::vector<double> gosa;
};

Reference solve_in_double(const Grid& grid, Data data) {
    const std::size_t cells = grid.cells();
    tenken::Buffer from = tenken::allocate_pageable(cells);
    tenken::Buffer to = tenken::allocate_pageable(cells);
    const auto count = static_cast<long>(cells);
#pragma omp parallel for schedule(static)
    for (long cell = 0; cell < count; ++cell) {
        from.get()[cell] = to.get()[cell] = value_at(p, data, grid, static_cast<std::size_t>(cell));
    }
    Reference reference;
    const auto plane = static_cast<long>(grid.plane());
    const long line = grid.nk;
    for (long n = 0; n < checked; ++n) {
        const double* const before = from.get();
        double* const after = to.get();
        double gosa = 0;
#pragma omp parallel for collapse(2) schedule(static) reduction(+ : gosa)
        for (int i = 1; i < grid.ni - 1; ++i) {
            for (int j = 1; j < grid.nj - 1; ++j) {
                const long first = i * plane + j * line;
                for (long cell = first + 1; cell < first + line - 1; ++cell) {
                    const double ss = correction<double>(
                        [&](int name) {
                            return static_cast<double>(
                                value_at(name, data, grid, static_cast<std::size_t>(cell)));
                        },
                        [&](int di, int dj, int dk) { return before[cell + di * plane + dj * line + dk]; });
                    gosa += ss * ss;
                    after[cell] = before[cell] + static_cast<double>(omega) * ss;
                }
            }
        }
        reference.gosa.push_back(gosa);
        std::swap(from, to);
    }
    reference.pressure = from;
    return reference;
}

class Himeno : public tenken::Program {
  public:
    Himeno() : gpu_(make_gpu_solvers()) {}

    std::string name() const override { return "himeno"; }
    std::string purpose() const override {
        return "Himeno: Jacobi iterations of the pressure equation in single precision, in GFLOP/s of 34 "
               "operations per cell; --repetitions is the number of iterations.";
    }
    std::int64_t default_repetitions() const override { return 3000; }

    void options(tenken::Arguments& arguments) override {
        arguments.choice("backend", backend_, tenken::backends(gpu_ != nullptr),
                         "host: OpenMP; cuda: every GPU in turn");
        arguments.choice("size", size_, sizes,
                         "XS 32x32x64, S 64x64x128, M 128x128x256, L 256x256x512, XL 512x512x1024, XXL "
                         "1024x1024x2048 cells");
        arguments.choice(
            "timing", timing_, {"fixed", "classic"},
            "fixed: --repetitions iterations without a trial run; classic: a trial run of 3 iterations, "
            "then as many as take --target-seconds");
        arguments.real("target-seconds", target_seconds_, "s", 0.1, 600, "target time of --timing classic");
        arguments.choice(
            "data", data_, {"varied", "official"},
            "contents of the arrays in the timed part: numbers that differ from cell to cell, or the "
            "benchmark's constants, of which many are 0; verification uses the former");
        if (!gpu_) return;
        arguments.heading("back end cuda");
        arguments.text(
            "memory", memory_, "LIST",
            "memory types of the arrays, one after the other: some of explicit (cudaMalloc), managed "
            "(cudaMallocManaged, written by the host), sam (malloc, written by the host)");
        arguments.choice("init", init_, {"device", "host"},
                         "initialise explicit arrays on the GPU, or on the host with a copy");
        gpu_->options(arguments);
    }

    void prepare(const tenken::Arguments& arguments) override {
        grid_ = grid_of(size_);
        kinds_ = {"host"};
        if (!on_host())
            kinds_ = tenken::distinct_words(arguments, "memory", memory_, {"explicit", "managed", "sam"});
        const std::uint64_t host_arrays = on_host() ? arrays : 0;
        // The verification needs two pressures in double and one in single precision.
        require_fit(arguments, host_arrays * grid_.bytes_of_one() + 5 * grid_.bytes_of_one(),
                    tenken::available_memory_bytes() / 10 * 9, "the host");
        if (on_host()) return;
        gpu_->prepare(arguments);
        const bool managed = std::count(kinds_.begin(), kinds_.end(), "managed") > 0;
        for (const tenken::DeviceDescription& device : gpu_->descriptions()) {
            const std::uint64_t left = device.memory_free_bytes;
            require_fit(arguments, arrays * grid_.bytes_of_one(), managed ? left / 2 : left / 10 * 9,
                        "gpu" + std::to_string(device.index) +
                            (managed ? ", half of the free memory, as for all managed memory" : ""));
        }
    }

    void measure(tenken::Run& run) override {
        tenken::Document& document = run.document;
        document.build.backends = tenken::backends(gpu_ != nullptr);
        document.path("backend", backend_);
        document.path("arrays_bytes", static_cast<std::uint64_t>(arrays * grid_.bytes_of_one()));
        tenken::describe_pages(document);
        if (on_host()) {
            const std::unique_ptr<Solver> solver = make_host_solver(grid_);
            measure_on(*solver, "host", run, run.fault);
        } else {
            try {
                measure_on_gpus(run);
            } catch (...) {
                gpu_->describe(document);
                throw;
            }
            gpu_->describe(document);
        }
        document.placement = tenken::find_placement();
    }

  private:
    bool on_host() const { return backend_ == "host"; }
    Data data() const { return data_ == "official" ? Data::official : Data::varied; }

    static void require_fit(const tenken::Arguments& arguments, std::uint64_t bytes, std::uint64_t maximum,
                            const std::string& side) {
        if (bytes <= maximum) return;
        throw arguments.error("size", "one whose arrays fit: requested " + tenken::format_bytes(bytes) +
                                          ", at most " + tenken::format_bytes(maximum) + " on " + side);
    }

    void measure_on_gpus(tenken::Run& run) {
        const std::vector<tenken::DeviceDescription> devices = gpu_->descriptions();
        for (const tenken::DeviceDescription& device : devices) {
            for (const std::string& kind : kinds_) {
                if (kind == "managed") tenken::require_method(tenken::Method::managed_touch, device);
                if (kind == "sam") tenken::require_method(tenken::Method::sam, device);
            }
        }
        for (const tenken::Metric& dot : gpu_->measure_dot(run.warmup_seconds)) run.document.add(dot);
        for (std::size_t which = 0; which < devices.size(); ++which) {
            for (const std::string& kind : kinds_) {
                const bool first = which == 0 && kind == kinds_.front();
                const std::unique_ptr<Solver> solver = gpu_->make(which, kind, init_ == "host", grid_);
                measure_on(*solver, kind, run, first ? run.fault : tenken::Fault::none);
            }
        }
    }

    void measure_on(Solver& solver, const std::string& memory, tenken::Run& run, tenken::Fault fault) {
        const double moved_in = solver.fill(data());
        long iterations = static_cast<long>(run.repetitions);
        if (timing_ == "classic") {
            const double seconds = solver.iterate(3, 3).total_seconds;
            iterations = std::max(3L, static_cast<long>(target_seconds_ / (seconds / 3)));
            solver.refill(data());  // the first timed iterations are verified
        }
        solver.begin_timed();
        const Timing timing = solver.iterate(iterations, 3000);
        solver.end_timed();
        const tenken::Buffer fetched = tenken::allocate_pageable(grid_.cells() / 2 + 1);
        float* const pressure = reinterpret_cast<float*>(fetched.get());
        const double moved_out = solver.fetch(pressure);

        const double flops = flops_of_cell * grid_.inner_cells();
        tenken::Metric metric;
        metric.subject = solver.subject();
        metric.clock = solver.clock();
        metric.at = {{"memory", tenken::Json(memory)}};
        metric.name = "iteration";
        metric.timed(timing.seconds, {{"operations", flops * static_cast<double>(timing.stride)}});
        run.document.add(metric);
        const double all = flops * static_cast<double>(iterations);
        metric.name = "total";
        metric.clock = "host";
        metric.timed({timing.total_seconds}, {{"operations", all}});
        run.document.add(metric);
        if (moved_in > 0) {
            metric.name = "with_transfers";
            metric.timed({timing.total_seconds + moved_in + moved_out}, {{"operations", all}});
            run.document.add(metric);
        }
        run.document.path("iterations." + memory, static_cast<std::uint64_t>(iterations));
        run.document.path("last_gosa." + memory, timing.gosa.back());
        verify(solver, memory, timing, fault, pressure, run.document);
    }

    void verify(Solver& solver, const std::string& memory, const Timing& timing, tenken::Fault fault,
                float* pressure, tenken::Document& document) {
        const tenken::Subject subject = solver.subject();
        const tenken::At at = {{"memory", tenken::Json(memory)}};
        tenken::ErrorScan finite(catalogue::finite().tolerance);
        const bool infinite = tenken::injected_error(fault, catalogue::finite(), false) > 0;
        for (std::size_t i = 0; i < timing.gosa.size(); ++i) {
            const bool last = i + 1 == timing.gosa.size();
            finite.compare(i, last && infinite ? HUGE_VAL : timing.gosa[i], 0);
        }
        document.add(finite.check(catalogue::finite(), subject, at));

        solver.refill(Data::varied);
        const Timing again = solver.iterate(checked, checked);
        solver.fetch(pressure);
        if (!reference_.pressure) reference_ = solve_in_double(grid_, Data::varied);
        // Two steps of some twenty single-precision operations each, all terms of one sign except the small
        // b.
        tenken::ErrorScan values(catalogue::pressure().tolerance);
        const double* const expected = reference_.pressure.get();
        pressure[grid_.last_inner_cell()] *=
            static_cast<float>(1 + tenken::injected_error(fault, catalogue::pressure(), true));
        tenken::scan(values, pressure, grid_.cells(), 0, catalogue::pressure().tolerance,
                     [=](std::size_t i) { return expected[i]; });
        tenken::At after = at;
        after.emplace_back("iterations", tenken::Json(checked));
        document.add(values.check(catalogue::pressure(), subject, after));
        tenken::ErrorScan sums(catalogue::gosa().tolerance);
        for (std::size_t i = 0; i < reference_.gosa.size(); ++i) {
            const bool last = i + 1 == reference_.gosa.size();
            const double error = last ? tenken::injected_error(fault, catalogue::gosa(), false) : 0;
            sums.compare(i, again.gosa[i] * (1 + error), reference_.gosa[i]);
            if (data() == Data::varied && i < timing.gosa.size()) {
                sums.compare(i, timing.gosa[i], reference_.gosa[i]);
            }
        }
        document.add(sums.check(catalogue::gosa(), subject, at));
    }

    std::unique_ptr<GpuSolvers> gpu_;
    std::string backend_ = "host";
    std::string size_ = "XL";
    std::string timing_ = "fixed";
    double target_seconds_ = 60;
    std::string data_ = "varied";
    std::string memory_ = "explicit";
    std::string init_ = "device";
    std::vector<std::string> kinds_;
    Grid grid_ = {};
    Reference reference_;
};

}  // namespace

}  // namespace himeno

int main(int argc, char** argv) {
    himeno::Himeno program;
    return tenken::run_program(program, argc, argv);
}
