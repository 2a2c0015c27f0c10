// LU factorisation with partial pivoting over a grid of processes, right-looking, with a look-ahead of one
// step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hpl/engine.h"

namespace hpl {

/// What one step took, in seconds of its lane: by events on a GPU.
struct StepTimes {
    Step step;
    double ahead = 0;      ///< panel lane: rows swapped and updates of the next panel's columns
    double panel = 0;      ///< panel lane: the next panel factorised (0 where another process has it)
    double broadcast = 0;  ///< panel lane: the next panel given to all
    double swap = 0;       ///< update lane
    double solve = 0;      ///< update lane: rows of U
    double update = 0;     ///< update lane: the product
    double update_flops = 0;
    double idle = 0;  ///< update lane: from the end of the step before to the begin of this one
};

struct Factored {
    double seconds = 0;        ///< barrier to barrier, with the solve
    double solve_seconds = 0;  ///< the back substitution, a part of it
    double first_panel = 0;
    std::int64_t singular = -1;  ///< the first column without a pivot
    std::vector<StepTimes> steps;
};

/// @param last_column stops there (for probes); n for all
/// @param spoil flips a bit of one element of the middle panel
Factored factorise(Engine& engine, Ranks& ranks, const std::vector<Step>& steps, bool look_ahead, bool spoil,
                   std::int64_t last_column);

}  // namespace hpl
