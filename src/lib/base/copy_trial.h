// One trial of copies between two arrays that were placed anew: who copies how often, and where the pages
// were before and after. Shared by the programs that ask what an access from the wrong side costs.
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
    std::string what;  ///< for messages: "pattern 5, sam, trial 1"
    std::size_t elements = 0;
    Method method = Method::sam;
    MemorySpace source = MemorySpace::host;
    MemorySpace destination = MemorySpace::host;
    std::vector<CopyPhase> phases;
    bool optimised = true;  ///< the CPU's copy: with streaming stores, or a plain loop compiled with -O0
    int pattern = 1;        ///< of the values copied; 0 stands in the destination before
    Fault fault = Fault::none;
};

struct CopySeries {
    std::vector<std::vector<double>>
        seconds;  ///< by phase; device time for the GPU's, host time for the CPU's
    Residence source_before, destination_before, source_after, destination_after;
    Check check;
};

/// Allocates, places, makes sure that the pages are where they were wanted, copies, looks at the pages again
/// and compares every element of the destination.
/// @param gpu null: both sides are the host's and the CPU copies
/// @throws std::runtime_error when pages are not where the trial wants them
CopySeries run_copy_trial(const CopyTrial& trial, CopyGpu* gpu);

}  // namespace tenken
