// LU factorisation over a grid of processes, right-looking, with a look-ahead of one step.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/lu/distribution.h"
#include "lib/lu/ranks.h"

namespace lu {

/// Two queues of work. The work of a lane is executed in order. Lanes are concurrent if the engine supports
/// it (a GPU); otherwise each call is executed immediately, which is also a valid order.
enum class Lane { update, panel };

/// The implementation of the steps. A factorised panel is in one of two slots, with the data for other
/// processes.
class Stepper {
  public:
    virtual ~Stepper() = default;

    virtual const Distribution& distribution() const = 0;
    /// The local column after the last one to be updated.
    virtual std::int64_t end_of_columns() const = 0;

    /// Panel lane: copies the columns of `step`, rows from step.begin on, into a slot. If the rows are on
    /// several processes, those of others are zero.
    virtual void load_panel(int slot, const Step& step) = 0;
    /// Panel lane: adds up the slots of a process column, so that one of them has the whole panel.
    virtual void sum_panel(int slot, const Step& step) = 0;
    /// Panel lane: factorises a slot that holds the whole panel.
    virtual void factor_panel(int slot, const Step& step) = 0;
    /// Panel lane: broadcasts panel and permutation from `root`.
    virtual void broadcast_panel(int slot, const Step& step, int root) = 0;
    /// Panel lane: prepares the other operands of the updates (inverses, own rows), and stores the panel's
    /// rows of U for solve().
    virtual void ready_panel(int slot, const Step& step) = 0;
    /// For --inject-fault: flips one bit of one element of the panel.
    virtual void spoil_panel(int slot, const Step& step) = 0;

    /// Swaps the rows of these columns according to the panel.
    virtual void swap_rows(Lane lane, int slot, const Step& step, Range columns) = 0;
    /// Converts them to rows of U by the panel's triangle.
    virtual void solve_rows(Lane lane, int slot, const Step& step, Range columns) = 0;
    /// Subtracts L U from the rows below.
    virtual void multiply(Lane lane, int slot, const Step& step, Range columns) = 0;

    /// Records the point that a lane has reached, for wait() of the other lane. There are `marks` of them.
    static constexpr int marks = 4;
    virtual void mark(Lane lane, int which) = 0;
    virtual void wait(Lane lane, int which) = 0;
    /// A time stamp in a lane. @return its number, for seconds_between() after finish()
    virtual int stamp(Lane lane) = 0;
    virtual double seconds_between(int earlier, int later) = 0;
    virtual void forget_stamps() = 0;
    /// Waits until both lanes are empty. @return the first column without a pivot, -1 if there is none
    virtual std::int64_t finish() = 0;

    /// Solves U x = y by blocks of at most a step, after finish(). All processes then have the whole x.
    virtual void solve(Ranks& ranks) = 0;
};

/// Duration of the parts of one step, in seconds of its lane: by events on a GPU.
struct StepTimes {
    Step step;
    double ahead = 0;      ///< panel lane: rows swapped and updates of the next panel's columns
    double panel = 0;      ///< panel lane: the next panel factorised (0 if another process has it)
    double broadcast = 0;  ///< panel lane: the next panel broadcast
    double swap = 0;       ///< update lane
    double solve = 0;      ///< update lane: rows of U
    double update = 0;     ///< update lane: the product
    double update_flops = 0;
    double idle = 0;  ///< update lane: from the end of the previous step to the beginning of this one
};

struct Factored {
    double seconds = 0;        ///< barrier to barrier, with the solve
    double solve_seconds = 0;  ///< the back substitution, a part of it
    double first_panel = 0;
    std::int64_t singular = -1;  ///< the first column without a pivot
    std::vector<StepTimes> steps;
    /// Each part summed over the steps; `panel` with the first one, before which nothing is updated.
    StepTimes sum() const;
};

/// @param last_column stop there (for probes); n for all
/// @param spoil flip a bit of one element of the middle panel
Factored factorise(Stepper& stepper, Ranks& ranks, const std::vector<Step>& steps, bool look_ahead,
                   bool spoil, std::int64_t last_column);

}  // namespace lu
