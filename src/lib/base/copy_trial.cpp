#include "lib/base/copy_trial.h"

#include <stdexcept>

#include "lib/base/clock.h"
#include "lib/base/host_copy.h"

namespace tenken {

namespace {

void place(double* array, const CopyTrial& trial, MemorySpace space, int pattern, CopyGpu* gpu) {
    if (trial.method == Method::managed_advise) gpu->advise(array, trial.elements, space);
    const bool by_gpu = space == MemorySpace::device && trial.method != Method::managed_prefetch;
    if (by_gpu) {
        gpu->fill(array, trial.elements, pattern);
    } else {
        fill_on_host(array, trial.elements, pattern);
    }
    if (trial.method == Method::managed_prefetch) gpu->prefetch(array, trial.elements, space);
}

void require_space(const Residence& found, MemorySpace wanted, const char* which, const CopyTrial& trial) {
    if (!found.contradicts(wanted)) return;
    throw std::runtime_error(id_of("trial", trial.subject, trial.at) + ": the pages of the " + which +
                             " should lie on the " + name_of(wanted) + ", but they are: " + found.text());
}

}  // namespace

CopySeries run_copy_trial(const CopyTrial& trial, CopyGpu* gpu) {
    if (gpu == nullptr && (trial.source == MemorySpace::device || trial.destination == MemorySpace::device)) {
        throw std::logic_error("run_copy_trial: device memory without a GPU");
    }
    const auto allocate = [&](MemorySpace space) {
        return gpu == nullptr ? allocate_pageable(trial.elements)
                              : gpu->allocate(trial.method, space, trial.elements);
    };
    const auto residence = [&](const Buffer& array, MemorySpace space) {
        return gpu == nullptr ? Residence::all_on(MemorySpace::host)
                              : gpu->residence(array.get(), trial.elements, trial.method, space);
    };
    const Buffer from = allocate(trial.source);
    const Buffer to = allocate(trial.destination);
    place(from.get(), trial, trial.source, trial.pattern, gpu);
    place(to.get(), trial, trial.destination, 0, gpu);
    CopySeries series;
    series.source_before = residence(from, trial.source);
    series.destination_before = residence(to, trial.destination);
    require_space(series.source_before, trial.source, "source", trial);
    require_space(series.destination_before, trial.destination, "destination", trial);

    const auto by_host = trial.optimised ? copy_on_host : copy_on_host_unoptimised;
    for (const CopyPhase& phase : trial.phases) {
        if (phase.processor == Processor::gpu) {
            gpu->begin_timed();  // the GPU may be idle while the CPU copies, and lower its clocks
            series.seconds.push_back(gpu->copy(to.get(), from.get(), trial.elements, phase.repetitions));
            gpu->end_timed();
        } else {
            series.seconds.push_back(
                time_each(phase.repetitions, [&] { by_host(to.get(), from.get(), trial.elements); }));
        }
    }

    series.source_after = residence(from, trial.source);
    series.destination_after = residence(to, trial.destination);
    const std::size_t victim = trial.elements - 1;
    if (trial.fault == Fault::element && gpu != nullptr) gpu->flip_bit(to.get(), victim);
    if (trial.fault == Fault::element && gpu == nullptr) {
        to.get()[victim] = with_flipped_bit(to.get()[victim]);
    }
    series.check = (gpu != nullptr ? gpu->compare(to.get(), trial.elements, trial.pattern)
                                   : compare_on_host(to.get(), trial.elements, trial.pattern))
                       .check(trial.verified, trial.subject, trial.at);
    return series;
}

}  // namespace tenken
