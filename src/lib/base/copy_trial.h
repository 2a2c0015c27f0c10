// One trial of copies between two newly placed arrays: which processor copies how often, and where the pages
// were before and after. Used by the programs that measure the cost of remote accesses.
#pragma once

#include <string>
#include <vector>

#include "lib/base/copy_gpu.h"
#include "lib/base/program.h"

namespace tenken {

/// Consecutive repetitions by one processor.
struct CopyPhase {
    Processor processor;
    long repetitions;
};

struct CopyTrial {
    Verified verified = {"", 0};
    Subject subject = Subject::host();
    At at = {};
    std::size_t elements = 0;
    Method method = Method::sam;
    MemorySpace source = MemorySpace::host;
    MemorySpace destination = MemorySpace::host;
    std::vector<CopyPhase> phases;
    bool optimised = true;  ///< the CPU's copy: with streaming stores, or a plain loop compiled with -O0
    int pattern = 1;        ///< of the values copied; the destination contains 0 before
    Fault fault = Fault::none;
};

struct CopySeries {
    std::vector<std::vector<double>>
        seconds;  ///< by phase; device time for GPU copies, host time for CPU copies
    Residence source_before, destination_before, source_after, destination_after;
    Check check;
};

/// Allocates and places the arrays, checks that the pages are where they were requested, copies, queries the
/// pages again and compares every element of the destination.
/// @param gpu null: both sides are host memory and the CPU copies
/// @throws std::runtime_error if pages are not where the trial requires them
CopySeries run_copy_trial(const CopyTrial& trial, CopyGpu* gpu);

}  // namespace tenken
