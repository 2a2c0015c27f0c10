#include "lib/lu/factor.h"

#include <algorithm>

#include "lib/base/clock.h"

namespace lu {

namespace {

// Marks that lanes wait for.
constexpr int panel_is_ready = 0;  // and 1, by slot
constexpr int rest_is_done = 2;

/// Indices of the time stamps of one step; -1 if there is none.
struct Stamps {
    int ahead_begin = -1;
    int ahead_end = -1;
    int panel_begin = -1;
    int panel_end = -1;
    int broadcast_end = -1;
    int rest_begin = -1;
    int swapped = -1;
    int solved = -1;
    int updated = -1;
};

class Factorisation {
  public:
    Factorisation(Stepper& stepper, Ranks& ranks, const std::vector<Step>& steps, bool look_ahead, bool spoil,
                  std::int64_t last_column)
        : stepper_(stepper),
          ranks_(ranks),
          distribution_(stepper.distribution()),
          steps_(steps),
          look_ahead_(look_ahead),
          spoil_(spoil),
          last_column_(last_column),
          stamps_(steps.size() + 1) {}

    Factored run() {
        stepper_.forget_stamps();
        stepper_.finish();
        ranks_.barrier();
        const double begin = tenken::now_seconds();
        const int start = stepper_.stamp(Lane::panel);
        if (owns_columns(steps_[0])) stepper_.load_panel(0, steps_[0]);
        make_panel(0);
        const int first_made = stepper_.stamp(Lane::panel);
        std::size_t s = 0;
        for (; s < steps_.size() && steps_[s].begin < last_column_; ++s) {
            do_step(s);
            ranks_.alive("column " + std::to_string(steps_[s].end()) + " of " +
                         std::to_string(distribution_.n));
        }
        Factored result;
        const std::int64_t here = stepper_.finish();
        const double none = static_cast<double>(distribution_.n);
        const double first_bad = -ranks_.largest({here < 0 ? -none : -static_cast<double>(here)}).front();
        if (first_bad < none) result.singular = static_cast<std::int64_t>(first_bad);
        const double factored = tenken::now_seconds();
        if (result.singular < 0 && last_column_ >= distribution_.n) stepper_.solve(ranks_);
        ranks_.barrier();
        const double end = tenken::now_seconds();
        result.seconds = end - begin;
        result.solve_seconds = end - factored;
        result.first_panel = stepper_.seconds_between(start, first_made);
        for (std::size_t i = 0; i < s; ++i) result.steps.push_back(times(i));
        return result;
    }

  private:
    bool owns_columns(const Step& step) const { return distribution_.columns.owns(step.begin); }

    int root(const Step& step) const {
        return ranks_.at(distribution_.rows.owner(step.begin), distribution_.columns.owner(step.begin));
    }

    /// Panel lane: the columns loaded into the slot are summed, factorised and broadcast.
    void make_panel(std::size_t s) {
        const Step& step = steps_[s];
        const int slot = static_cast<int>(s % 2);
        Stamps& stamps = stamps_[s];
        if (owns_columns(step)) {
            stamps.panel_begin = stepper_.stamp(Lane::panel);
            if (!distribution_.one_row()) stepper_.sum_panel(slot, step);
            if (root(step) == ranks_.rank()) {
                stepper_.factor_panel(slot, step);
                if (spoil_ && s == steps_.size() / 2) stepper_.spoil_panel(slot, step);
            }
        }
        stamps.panel_end = stepper_.stamp(Lane::panel);
        if (ranks_.size() > 1) stepper_.broadcast_panel(slot, step, root(step));
        stepper_.ready_panel(slot, step);
        stamps.broadcast_end = stepper_.stamp(Lane::panel);
        stepper_.mark(Lane::panel, panel_is_ready + slot);
    }

    void work(Lane lane, int slot, const Step& step, Range columns) {
        stepper_.swap_rows(lane, slot, step, columns);
        stepper_.solve_rows(lane, slot, step, columns);
        stepper_.multiply(lane, slot, step, columns);
    }

    void do_step(std::size_t s) {
        const Step& step = steps_[s];
        const int slot = static_cast<int>(s % 2);
        Stamps& stamps = stamps_[s];
        const bool last = s + 1 == steps_.size();
        Range rest = {distribution_.columns.below(step.end()), stepper_.end_of_columns()};

        // The columns of the next panel are first, in the panel's lane.
        stepper_.wait(Lane::panel, rest_is_done);
        stamps.ahead_begin = stepper_.stamp(Lane::panel);
        if (!last && owns_columns(steps_[s + 1])) {
            const Range next = {rest.begin, rest.begin + steps_[s + 1].width};
            work(Lane::panel, slot, step, next);
            stepper_.load_panel(1 - slot, steps_[s + 1]);
            rest.begin = next.end;
        }
        stamps.ahead_end = stepper_.stamp(Lane::panel);
        if (!look_ahead_ && !last) make_panel(s + 1);

        stepper_.wait(Lane::update, panel_is_ready + (look_ahead_ || last ? slot : 1 - slot));
        stamps.rest_begin = stepper_.stamp(Lane::update);
        if (!rest.empty()) stepper_.swap_rows(Lane::update, slot, step, rest);
        stamps.swapped = stepper_.stamp(Lane::update);
        if (!rest.empty()) stepper_.solve_rows(Lane::update, slot, step, rest);
        stamps.solved = stepper_.stamp(Lane::update);
        if (!rest.empty()) stepper_.multiply(Lane::update, slot, step, rest);
        stamps.updated = stepper_.stamp(Lane::update);
        stepper_.mark(Lane::update, rest_is_done);
        if (look_ahead_ && !last) make_panel(s + 1);
    }

    StepTimes times(std::size_t s) {
        const Stamps& at = stamps_[s];
        StepTimes found;
        found.step = steps_[s];
        found.ahead = stepper_.seconds_between(at.ahead_begin, at.ahead_end);
        if (s + 1 < steps_.size()) {
            const Stamps& next = stamps_[s + 1];
            if (next.panel_begin >= 0)
                found.panel = stepper_.seconds_between(next.panel_begin, next.panel_end);
            if (next.broadcast_end >= 0)
                found.broadcast = stepper_.seconds_between(next.panel_end, next.broadcast_end);
        }
        found.swap = stepper_.seconds_between(at.rest_begin, at.swapped);
        found.solve = stepper_.seconds_between(at.swapped, at.solved);
        found.update = stepper_.seconds_between(at.solved, at.updated);
        if (s > 0) found.idle = stepper_.seconds_between(stamps_[s - 1].updated, at.rest_begin);
        const Step& step = steps_[s];
        std::int64_t columns = distribution_.local_columns - distribution_.columns.below(step.end());
        if (s + 1 < steps_.size() && owns_columns(steps_[s + 1])) columns -= steps_[s + 1].width;
        const std::int64_t rows = distribution_.local_rows - distribution_.rows.below(step.end());
        found.update_flops =
            2.0 * static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(step.width);
        return found;
    }

    Stepper& stepper_;
    Ranks& ranks_;
    const Distribution& distribution_;
    const std::vector<Step>& steps_;
    bool look_ahead_;
    bool spoil_;
    std::int64_t last_column_;
    std::vector<Stamps> stamps_;
};

}  // namespace

StepTimes Factored::sum() const {
    StepTimes all = {};
    all.panel = first_panel;
    for (const StepTimes& step : steps) {
        all.ahead += step.ahead;
        all.panel += step.panel;
        all.broadcast += step.broadcast;
        all.swap += step.swap;
        all.solve += step.solve;
        all.update += step.update;
        all.idle += step.idle;
    }
    return all;
}

Factored factorise(Stepper& stepper, Ranks& ranks, const std::vector<Step>& steps, bool look_ahead,
                   bool spoil, std::int64_t last_column) {
    return Factorisation(stepper, ranks, steps, look_ahead, spoil, last_column).run();
}

}  // namespace lu
