// The processes that run one program together, as the frame of a program sees them: who speaks, what all
// agree on, and how the failure of one ends the others. A program of one process needs none of it.
#pragma once

#include <functional>
#include <string>

namespace tenken {

class Team {
  public:
    /// How getting ready went in one process; the worse one counts for all.
    struct State {
        enum Grade { ready, waived, failed, shared, bad_argument };
        Grade grade = ready;
        std::string text;
    };

    virtual ~Team() = default;
    /// Joins the others, after the command line was read.
    virtual void begin() {}
    /// Whether this process prints and writes the document. Asked before begin() as well.
    virtual bool speaks() const { return true; }
    /// The worst state among all processes, the same in each.
    virtual State agree(const State& mine) { return mine; }
    /// This process cannot go on while others may be waiting for it: ends all of them, with a line on stderr.
    virtual void abandon(const std::string& what) { (void)what; }
    /// What to do before abandoning a run in which this process has been waiting for others in vain: writes
    /// the document. Set by the frame in the process that speaks.
    virtual void set_last_will(std::function<void(const std::string&)> will) { (void)will; }
    /// Leaves the others in peace. The exit code of processes that do not speak is 0 then.
    virtual void end() {}
};

}  // namespace tenken
