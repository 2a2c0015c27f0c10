#include "lib/base/copy_program.h"

#include <algorithm>

#include "lib/base/clock.h"
#include "lib/base/host.h"
#include "lib/base/placement.h"

namespace tenken {

void CopyProgram::options(Arguments& arguments) {
    arguments.choice("backend", backend_, backends(gpus_ != nullptr),
                     "host: the CPU alone; cuda: with every GPU in turn");
    arguments.bytes(
        "bytes", bytes_, 8, std::uint64_t{1} << 50,
        "bytes of each of the two arrays, rounded down to whole elements of 8; the two together at "
        "most 9/10 of the free memory of either side, half of the GPU's for managed memory");
    arguments.choice(
        "placement", placement_, method_names(),
        "placement of the arrays. sam: malloc and first touch; managed_touch: "
        "cudaMallocManaged and first touch; managed_prefetch, managed_advise: with prefetch or "
        "preferred location; explicit: pinned or cudaMalloc. The host back end supports only sam");
    arguments.integer("trials", trials_, 1, 1000,
                      "number of repetitions of the whole measurement, including allocation");
    arguments.choice(
        "cpu-copy", cpu_copy_, {"optimised", "unoptimised"},
        "the CPU's copy: with streaming stores, or a plain loop compiled without optimisation, as "
        "published figures were measured");
    more_options(arguments);
    if (!gpus_) return;
    arguments.heading("back end cuda");
    gpus_->options(arguments);
}

void CopyProgram::prepare(const Arguments& arguments) {
    if (on_host() && method() != Method::sam) {
        throw arguments.error("placement", "sam with --backend host: malloc and first touch");
    }
    elements_ = bytes_ / sizeof(double);
    bytes_ = elements_ * sizeof(double);
    if (!on_host()) gpus_->prepare(arguments);
    require_two_arrays_fit(arguments, "bytes", bytes_, method(),
                           on_host() ? std::vector<DeviceDescription>() : gpus_->descriptions());
    more_prepare(arguments);
}

void CopyProgram::measure(Run& run) {
    Document& document = run.document;
    document.build.backends = backends(gpus_ != nullptr);
    document.path("backend", backend_);
    describe_pages(document);
    if (on_host()) {
        measure_on(nullptr, run);
    } else {
        try {
            for (const DeviceDescription& device : gpus_->descriptions()) require_method(method(), device);
            gpus_->each([&](CopyGpu& gpu) { measure_on(&gpu, run); });
        } catch (...) {
            gpus_->report(document);  // the attributes that caused it, or the GPU that failed
            throw;
        }
        gpus_->report(document);
    }
    document.placement = find_placement();
}

CopyTrial CopyProgram::trial(long number, Fault fault) const {
    CopyTrial trial;
    trial.elements = elements_;
    trial.method = method();
    trial.optimised = cpu_copy_ == "optimised";
    trial.pattern = static_cast<int>(number);
    trial.fault = fault;
    return trial;
}

void CopyProgram::note(const std::string& key, const CopySeries& series, Document& document) {
    document.path("pages." + key + ".source",
                  series.source_before.text() + " -> " + series.source_after.text());
    document.path("pages." + key + ".destination",
                  series.destination_before.text() + " -> " + series.destination_after.text());
    document.add(series.check);
}

std::vector<std::pair<std::string, Json>> CopyProgram::at(std::vector<std::pair<std::string, Json>> others,
                                                          long number) const {
    if (trials_ > 1) others.emplace_back("trial", Json(number));
    return others;
}

std::vector<double> CopyProgram::device_copy(CopyGpu& gpu, const Run& run) const {
    const Buffer from = gpu.allocate(Method::explicit_memory, MemorySpace::device, elements_);
    const Buffer to = gpu.allocate(Method::explicit_memory, MemorySpace::device, elements_);
    gpu.fill(from.get(), elements_, 1);
    gpu.fill(to.get(), elements_, 0);
    warm_up(run.warmup_seconds, [&] { gpu.copy(to.get(), from.get(), elements_, 1); });
    return gpu.copy(to.get(), from.get(), elements_, 100);
}

}  // namespace tenken
