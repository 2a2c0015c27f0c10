// The 27-point stencil in several formulations, with the same cells and the same verification.
#include "catalogue/stencil_forms.h"

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/base/host.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#include "programs/stencil/reference.h"
#include "programs/stencil_forms/form.h"
#include "programs/stencil_forms/gpus.h"

namespace stencil_forms {

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<GpuForms> make_gpu_forms() {
    return nullptr;
}
#endif

namespace {

bool on_gpu(const std::string& form) {
    return form == "device" || form == "managed";
}

class StencilForms : public tenken::Program {
  public:
    StencilForms() : gpus_(make_gpu_forms()) {}

    std::string name() const override { return "stencil_forms"; }
    std::string purpose() const override {
        return "A stencil of 27 points in double precision by one programming model: Gcell/s (10^9 cells x "
               "steps per second) of formulations as short as their models allow.";
    }
    std::int64_t default_repetitions() const override { return 10; }

    void options(tenken::Arguments& arguments) override {
        std::vector<std::string> forms = {"sequential", "openmp", "shared"};
#ifdef TENKEN_HAVE_OPENACC
        forms.push_back("openacc");
#endif
        if (gpus_) forms.insert(forms.end(), {"device", "managed"});
        arguments.choice(
            "form", form_, forms,
            "sequential: one thread; openmp: its threads; shared: processes that share one grid; "
            "openacc: the device of its runtime; device: CUDA on one GPU; managed: one grid in the "
            "managed memory of all GPUs");
        arguments.integer("nx", nx_, 3, 1 << 20, "cells in x");
        arguments.integer("ny", ny_, 3, 1 << 20, "cells in y");
        arguments.integer("nz", nz_, 3, 1 << 20, "cells in z, of all parts together");
        arguments.integer("steps", steps_, 1, 1 << 20, "steps of a repetition");
        arguments.integer("parts", parts_, 0, 1024, "processes of shared; 0: as many as OpenMP has threads");
        if (!gpus_) return;
        arguments.heading("GPUs");
        gpus_->options(arguments);
    }

    void prepare(const tenken::Arguments& arguments) override {
        grid_ = {static_cast<int>(nx_), static_cast<int>(ny_), nz_};
        const std::uint64_t bytes = 2 * cells_of(grid_) * sizeof(double);
        const bool on_host = !on_gpu(form_);
        if (parts_ > 0 && form_ != "shared") throw arguments.error("parts", "0 with --form " + form_);
        // the grid before and after the verified step, in addition to the memory of the formulation
        const std::uint64_t asked = bytes + (on_host || form_ == "managed" ? bytes : 0);
        const std::uint64_t available = tenken::available_memory_bytes() / 10 * 9;
        if (asked > available) {
            throw arguments.error("nz", "one whose grid fits: requested " + tenken::format_bytes(asked) +
                                            ", at most " + tenken::format_bytes(available) + " on the host");
        }
        const int threads = std::max(1, tenken::find_placement().threads);
        if (!on_host) {
            gpus_->prepare(arguments, form_, bytes);
            parts_ = gpus_->parts(form_);
        } else if (form_ == "openmp") {
            parts_ = threads;
        } else if (form_ != "shared") {
            parts_ = 1;
        } else if (parts_ == 0) {
            parts_ = std::min<std::int64_t>(threads, nz_ - 2);
        }
        if (form_ == "shared" && parts_ > nz_ - 2) {
            throw arguments.error("parts", "at most " + std::to_string(nz_ - 2) + ", the planes that change");
        }
    }

    void measure(tenken::Run& run) override {
        tenken::Document& document = run.document;
        document.build.backends = tenken::backends(gpus_ != nullptr);
        document.path("form", form_);
#ifdef TENKEN_HAVE_OPENACC
        if (form_ == "openacc") describe_openacc(document);
#endif
        verify_small(run);
        const std::unique_ptr<Form> form = make(grid_);
        std::vector<double> before = start_of(grid_);
        form->load(before.data());
        if (on_gpu(form_)) gpus_->begin_timed();
        tenken::warm_up(run.warmup_seconds, [&] { form->advance(steps_); });
        tenken::Metric metric;
        metric.name = "cells";
        metric.subject = tenken::Subject::ranks(static_cast<int>(parts_));
        metric.timed(tenken::time_each(run.repetitions, [&] { form->advance(steps_); }),
                     {{"cells", grid_.inner_cells() * static_cast<double>(steps_)}});
        if (on_gpu(form_)) gpus_->end_timed();
        document.add(metric);
        verify_last(*form, before, run);
        document.placement = tenken::find_placement();
        if (on_gpu(form_)) gpus_->report(document);
    }

  private:
    std::unique_ptr<Form> make(const Grid& grid) {
        const int parts = static_cast<int>(std::min<std::int64_t>(parts_, grid.nz - 2));
        if (form_ == "sequential") return make_sequential(grid);
        if (form_ == "openmp") return make_openmp(grid);
        if (form_ == "shared") return make_shared(grid, parts);
#ifdef TENKEN_HAVE_OPENACC
        if (form_ == "openacc") return make_openacc(grid);
#endif
        return gpus_->make(form_, grid);
    }

    static std::vector<double> start_of(const Grid& grid) {
        std::vector<double> cells(cells_of(grid));
#pragma omp parallel for collapse(2) schedule(static)
        for (long z = 0; z < grid.nz; ++z) {
            for (int y = 0; y < grid.ny; ++y) {
                double* const row = cells.data() + (z * grid.ny + y) * static_cast<long>(grid.nx);
                for (int x = 0; x < grid.nx; ++x) row[x] = stencil::value_at(x, y, z);
            }
        }
        return cells;
    }

    /// A small grid, of the same number of parts, compared with single steps.
    void verify_small(tenken::Run& run) {
        const long steps = 9;
        const Grid small = {75, 53, std::max<long>(41, 3 * parts_ + 2)};
        const std::unique_ptr<Form> form = make(small);
        form->load(start_of(small).data());
        form->advance(steps - 4);
        form->advance(4);
        std::vector<double> found(cells_of(small));
        form->store(found.data());
        found.back() *= 1 + tenken::injected_error(run.fault, catalogue::small(), true);
        const std::vector<double> expected = stencil::reference<double>(small, 27, steps);
        tenken::ErrorScan errors(0);
        tenken::scan(errors, found.data(), found.size(), 0, 0, [&](std::size_t i) { return expected[i]; });
        run.document.add(
            errors.check(catalogue::small(), tenken::Subject::host(), {{"steps", tenken::Json(steps)}}));
    }

    /// One additional step of the large grid, every cell.
    void verify_last(Form& form, std::vector<double>& before, tenken::Run& run) const {
        form.store(before.data());
        form.advance(1);
        std::vector<double> after(before.size());
        form.store(after.data());
        after.back() *= 1 + tenken::injected_error(run.fault, catalogue::step(), false);
        const stencil::Coefficients<double> c = stencil::coefficients<double>(27);
        const long row = grid_.nx;
        const long plane = row * grid_.ny;
        tenken::ErrorScan errors(0);
        tenken::scan(errors, after.data(), after.size(), 0, 0, [&](std::size_t i) {
            const long cell = static_cast<long>(i);
            const long x = cell % row;
            const long y = cell / row % grid_.ny;
            const long z = cell / plane;
            const double* const here = before.data() + i;
            const bool fixed =
                x == 0 || x == row - 1 || y == 0 || y == grid_.ny - 1 || z == 0 || z == grid_.nz - 1;
            if (fixed) return *here;
            return stencil::stepped<27>(
                c, [&](int dz, int dy, int dx) { return here[dz * plane + dy * row + dx]; });
        });
        run.document.add(errors.check(catalogue::step()));
    }

    std::unique_ptr<GpuForms> gpus_;
    std::string form_ = "openmp";
    std::int64_t nx_ = 256;
    std::int64_t ny_ = 256;
    std::int64_t nz_ = 256;
    std::int64_t steps_ = 16;
    std::int64_t parts_ = 0;
    Grid grid_ = {};
};

}  // namespace

}  // namespace stencil_forms

int main(int argc, char** argv) {
    stencil_forms::StencilForms program;
    return tenken::run_program(program, argc, argv);
}
