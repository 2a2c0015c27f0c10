// LU factorisation over a grid of processes, right-looking, with a look-ahead of one step.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/lu/distribution.h"
#include "lib/lu/ranks.h"

namespace lu {

/// Two queues of work. What is asked of one lane happens in order; lanes go on beside each other where the
/// engine can (a GPU), else everything happens at once, which is an order too.
enum class Lane { update, panel };

/// What does the steps. A panel that was factorised lies in one of two slots, with what it brings to others.
class Stepper {
  public:
    virtual ~Stepper() = default;

    virtual const Distribution& distribution() const = 0;
    /// The local column behind the last one that is updated.
    virtual std::int64_t end_of_columns() const = 0;

    /// Panel lane: copies the columns of `step`, rows from step.begin on, into a slot. Where the rows are on
    /// several processes, those of others are zero.
    virtual void load_panel(int slot, const Step& step) = 0;
    /// Panel lane: adds up the slots of a process column, so that one of them has the whole panel.
    virtual void sum_panel(int slot, const Step& step) = 0;
    /// Panel lane: factorises a slot that holds the whole panel.
    virtual void factor_panel(int slot, const Step& step) = 0;
    /// Panel lane: gives panel and permutation of `root` to all.
    virtual void broadcast_panel(int slot, const Step& step, int root) = 0;
    /// Panel lane: makes ready what the updates need besides (inverses, own rows), and puts the panel's rows
    /// of U where solve() looks for them.
    virtual void ready_panel(int slot, const Step& step) = 0;
    /// For --inject-fault: flips one bit of one element of the panel.
    virtual void spoil_panel(int slot, const Step& step) = 0;

    /// Swaps the rows of these columns as the panel wants it.
    virtual void swap_rows(Lane lane, int slot, const Step& step, Range columns) = 0;
    /// Makes them rows of U by the panel's triangle.
    virtual void solve_rows(Lane lane, int slot, const Step& step, Range columns) = 0;
    /// Takes L U from the rows below.
    virtual void multiply(Lane lane, int slot, const Step& step, Range columns) = 0;

    /// Remembers the point that a lane has reached, for wait() of the other lane. There are `marks` of them.
    static constexpr int marks = 4;
    virtual void mark(Lane lane, int which) = 0;
    virtual void wait(Lane lane, int which) = 0;
    /// A point of time in a lane. @return its number, for seconds_between() after finish()
    virtual int stamp(Lane lane) = 0;
    virtual double seconds_between(int earlier, int later) = 0;
    virtual void forget_stamps() = 0;
    /// Waits until both lanes are empty. @return the first column without a pivot, -1 where there is none
    virtual std::int64_t finish() = 0;

    /// Solves U x = y by blocks of at most a step, after finish(). All processes have the whole x then.
    virtual void solve(Ranks& ranks) = 0;
};

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
Factored factorise(Stepper& stepper, Ranks& ranks, const std::vector<Step>& steps, bool look_ahead,
                   bool spoil, std::int64_t last_column);

}  // namespace lu
