// What work costs in joules: a pass of its own, beside the passes that are timed (docs/energy.md).
#pragma once

#include <functional>
#include <string>

#include "lib/base/document.h"
#include "lib/base/energy.h"
#include "lib/base/ranks.h"

namespace tenken {

/// Work that is repeated while a meter runs.
struct EnergyPass {
    double amount = 0;            ///< operations, bytes or cells of one run, of all ranks together
    std::string per_watt_unit;    ///< "GFLOP/s/W", "GB/s/W", "Gcell/s/W"
    bool solves = true;           ///< whether one run is a solution, whose joules are a figure of their own
    std::function<double()> run;  ///< runs once, to the end; gives its seconds, the same in every rank
};

/// What a pass has found; a reading is absent where no sensor could be read.
struct EnergyFound {
    Optional<EnergyReading> reading;
    double seconds = 0;                    ///< of one run, mean
    bool counted_elsewhere = false;        ///< by another process of the node, whose sensors they share
    Optional<EnergyReading> beside;        ///< of a GPU's pass: the node's processors
    Optional<EnergyReading> whole_module;  ///< Grace's modules
};

/// Whether every rank has a sensor: a pass that some of them leave out would hang.
bool measured_by_all(const Meter* meter, Ranks& ranks);

/// Repeats the work until `min_seconds` have passed in every rank.
EnergyFound measure_energy(Meter& meter, Ranks& ranks, double min_seconds, const EnergyPass& pass);

/// Adds `power`, `per_watt` and, of what solves something, `energy` to the document, of all ranks' GPUs (or
/// nodes' processors) together, and the reading to its path; where a sensor could not be read, only that.
/// Called by all ranks.
/// @param made names subject and coordinates
void add_energy(Document& document, Ranks& ranks, const EnergyPass& pass, const EnergyFound& found,
                const Metric& made);

}  // namespace tenken
