// Energy cost of work: a separate pass, in addition to the timed ones (docs/energy.md).
#pragma once

#include <functional>
#include <string>

#include "lib/base/document.h"
#include "lib/base/energy.h"
#include "lib/base/ranks.h"

namespace tenken {

/// Work that is repeated while the meter runs.
struct EnergyPass {
    std::string counted = "operations";  ///< or "bytes", "cells": what `amount` counts
    double amount = 0;                   ///< of one run, of all ranks together
    std::function<double()> run;  ///< runs once to completion; returns its seconds, the same in every rank
};

/// The result of a pass; a reading is absent if no sensor could be read.
struct EnergyFound {
    Optional<EnergyReading> reading;
    double seconds = 0;              ///< of one run, mean
    bool counted_elsewhere = false;  ///< by another process of the node, with which the sensors are shared
    Optional<EnergyReading> beside;  ///< for a GPU's pass: the node's processors
    Optional<EnergyReading> whole_module;  ///< Grace's modules
};

/// Whether every rank has a sensor; a pass in which only some ranks take part would hang.
bool measured_by_all(const Meter* meter, Ranks& ranks);

/// Repeats the work until `min_seconds` have passed in every rank.
EnergyFound measure_energy(Meter& meter, Ranks& ranks, double min_seconds, const EnergyPass& pass);

/// Adds `power` to the document, summed over the GPUs of all ranks (or the processors of all nodes), with the
/// amount and the seconds of one run, from which the energy follows. The reading goes to the document's path;
/// if a sensor could not be read, the path has only that fact. Called by all ranks.
/// @param made with subject and coordinates
void add_energy(Document& document, Ranks& ranks, const EnergyPass& pass, const EnergyFound& found,
                const Metric& made);

}  // namespace tenken
