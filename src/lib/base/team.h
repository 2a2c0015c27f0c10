// The processes that run one program together: which one prints, how they agree, and how the failure of one
// ends the others. Not used by programs of one process.
#pragma once

#include <functional>
#include <string>

namespace tenken {

class Team {
  public:
    /// Outcome of the preparation in one process; the worst one counts for all.
    struct State {
        enum Grade { ready, waived, failed, shared, bad_argument };
        Grade grade = ready;
        std::string text;
    };

    virtual ~Team() = default;
    /// Joins the others, after the command line was parsed.
    virtual void begin() {}
    /// Whether this process prints and writes the document. Also called before begin().
    virtual bool speaks() const { return true; }
    /// The worst state among all processes, the same in each.
    virtual State agree(const State& mine) { return mine; }
    /// This process cannot continue while others may be waiting for it: ends all of them, with a line on
    /// stderr.
    virtual void abandon(const std::string& what) { (void)what; }
    /// Called before this process abandons a run in which it waited for the others in vain; writes the
    /// document. Set in the process that prints.
    virtual void set_last_will(std::function<void(const std::string&)> will) { (void)will; }
    /// Ends orderly. The exit code of processes that do not print is then 0.
    virtual void end() {}
};

}  // namespace tenken
