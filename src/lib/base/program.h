// The common part of all programs: arguments, document, verdict, exit code.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/clock.h"
#include "lib/base/document.h"
#include "lib/base/team.h"

namespace tenken {

enum ExitCode { exit_ok = 0, exit_failed = 1, exit_bad_arguments = 2, exit_waived = 3 };

/// Reasons why a machine cannot run a program: the closed list.
enum class Waiver {
    no_peer_access,
    no_managed_memory,
    no_pageable_memory_access,
    no_device_buffer_mpi,
    no_gpudirect_storage,
    needs_two_gpus,
    needs_more_ranks,
    library_missing,
    not_supported_by_the_device,
    not_supported_by_the_file_system
};

/// Thrown by a program that finds that this machine does not support it.
class Waived : public std::runtime_error {
  public:
    /// @param detail the evidence, e.g. "cudaDevAttrPageableMemoryAccess is 0"
    Waived(Waiver reason, const std::string& detail);
};

/// Faults injected by --inject-fault, so that tests can make a verification fail. `own`: one of the
/// program's own kinds, see Program::faults().
enum class Fault { none, element, sample, own };

/// The relative error of one value compared by this verification, for `element`; 0: none. By default that of
/// a flipped bit in the `first` one of a program. Tests name another in TENKEN_TEST_SPOILED, and may add the
/// error over its tolerance: "host_b:1.1".
double injected_error(Fault fault, const Verified& of, bool first);

/// A kind of fault specific to one program.
struct FaultKind {
    std::string name;  ///< the word of --inject-fault: "matrix-nan"
    std::string help;  ///< the effect of the fault
    /// The option of earlier releases for it, and its value there (empty for a flag); "" if there is
    /// none.
    std::string former_option;
    std::string former_value;
    bool must_fail = true;  ///< whether this run must detect it
};
/// The kinds of fault "rank-kill", "rank-stop" and, if requested, "rank-exception": the last rank ends in
/// the middle of the measurement. Earlier releases used --die.
std::vector<FaultKind> rank_faults(bool with_exception);
/// Applies such a fault to this process; returns for all other kinds.
/// @throws std::runtime_error for "rank-exception"
void end_this_rank(const std::string& kind);

/// Common to all programs: the common options, already parsed, and the document to fill in.
struct Run {
    Run(const std::string& program, int argc, char** argv) : document(program, argc, argv) {}

    Document document;
    double warmup_seconds = 1.0;
    std::int64_t repetitions = 100;
    Fault fault = Fault::none;
};

/// One benchmark. run_program() calls the functions in the order of their declaration.
class Program {
  public:
    virtual ~Program() = default;

    virtual std::string name() const = 0;
    /// One sentence for --help.
    virtual std::string purpose() const = 0;
    /// The default of --repetitions.
    virtual std::int64_t default_repetitions() const { return 100; }
    /// Declares the program's own options; --repetitions, --warmup-seconds, --json, --request,
    /// --inject-fault, --help and --version exist already.
    virtual void options(Arguments& arguments) = 0;
    /// Faults for --inject-fault in addition to `element` and `sample`.
    virtual std::vector<FaultKind> faults() const { return {}; }
    /// Computes defaults and compares the arguments with the machine, before anything is allocated.
    /// @throws ArgumentError by arguments.error(), Waived, or any std::exception, which fails the run
    virtual void prepare(const Arguments& arguments) { (void)arguments; }
    /// Warms up, times, verifies; adds metrics and checks to run.document.
    /// @throws Waived, or any std::exception, which fails the run with its text
    virtual void measure(Run& run) = 0;

  protected:
    /// The word of --inject-fault, known from prepare() on: "none", "element", "sample", or one of faults().
    const std::string& injected_fault() const { return injected_fault_; }

  private:
    friend int run_program(Program& program, int argc, char** argv, Team& team);
    std::string injected_fault_ = "none";
};

/// Runs a program from command line to exit code (0 ok, 1 failed, 2 wrong argument, 3 waived): prints the
/// table, ends with the line "NAME: STATUS[: REASON]", and writes the document for 0, 1 and 3.
/// A run that compared nothing, or did not detect an injected fault, has failed.
int run_program(Program& program, int argc, char** argv);

/// The same for a program of several processes: one of them prints, writes the document and has the
/// exit code; an exception in the measurement of any of them ends all.
int run_program(Program& program, int argc, char** argv, Team& team);

}  // namespace tenken
