#include "lib/base/program.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <thread>

#include "lib/base/load.h"
#include "lib/base/machine_locks.h"
#include "lib/base/request.h"
#include "lib/base/version.h"

namespace tenken {

namespace {

const char* text_of(Waiver reason) {
    switch (reason) {
        case Waiver::no_peer_access:
            return "no peer access";
        case Waiver::no_managed_memory:
            return "no managed memory";
        case Waiver::no_pageable_memory_access:
            return "no pageable memory access";
        case Waiver::no_device_buffer_mpi:
            return "no device-buffer MPI";
        case Waiver::no_gpudirect_storage:
            return "no GPUDirect Storage";
        case Waiver::needs_two_gpus:
            return "needs two GPUs";
        case Waiver::needs_more_ranks:
            return "needs more ranks";
        case Waiver::library_missing:
            return "library missing";
        case Waiver::not_supported_by_the_device:
            return "not supported by the device";
        case Waiver::not_supported_by_the_file_system:
            return "not supported by the file system";
    }
    return "not supported by the device";
}

int bad_argument(const std::string& program, const std::string& what) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), what.c_str());
    return exit_bad_arguments;
}

/// prepare(), with every exception converted into a state on which a team can agree.
Team::State prepare(Program& program, const Arguments& arguments) {
    try {
        program.prepare(arguments);
    } catch (const Waived& waived) {
        return {Team::State::waived, waived.what()};
    } catch (const ArgumentError& wrong) {
        return {Team::State::bad_argument, wrong.what()};
    } catch (const Shared& other) {
        return {Team::State::shared, other.what()};
    } catch (const std::exception& error) {
        // The machine is the cause, not the command line: no driver, for example.
        return {Team::State::failed, error.what()};
    }
    return {};
}

/// measure(), with every exception converted into the document's status.
/// @return why the others of a team must not wait for this process; empty if it has completed
/// @param must_fail whether this run must detect an injected fault
std::string measure(Program& program, Run& run, bool must_fail, bool speaks) {
    if (run.fault == Fault::sample) run.document.damage_next_metric();
    std::string broken;
    try {
        program.measure(run);
        if (speaks && !run.document.checked()) run.document.fail("the program verified nothing");
    } catch (const Waived& waived) {
        run.document.waive(waived.what());
    } catch (const std::bad_alloc&) {
        broken = "out of memory";
    } catch (const std::exception& error) {
        broken = error.what();
    }
    if (!broken.empty()) run.document.fail(broken);
    if (must_fail && run.document.status() == Status::ok && speaks) {
        run.document.fail("the fault injected by --inject-fault was not detected");
    }
    return broken;
}

/// Declares --inject-fault with all kinds, and the options of earlier releases for some of them.
void declare_faults(Arguments& arguments, std::string& fault, const std::vector<FaultKind>& kinds) {
    std::vector<std::string> names = {"none", "element", "sample"};
    std::string help =
        "inject a fault. element: flip one bit of one element before the verification; sample: turn "
        "one sample into a number that is not finite";
    std::map<std::string, std::vector<std::pair<std::string, std::string>>> former;
    for (const FaultKind& kind : kinds) {
        names.push_back(kind.name);
        help += "; " + kind.name + ": " + kind.help;
        if (!kind.former_option.empty()) former[kind.former_option].push_back({kind.former_value, kind.name});
    }
    arguments.choice("inject-fault", fault, names, help + ". The run must then fail");
    for (auto& option : former) {
        const bool flag = option.second.size() == 1 && option.second.front().first.empty();
        if (!flag) {
            option.second.push_back({"no", "none"});
            option.second.push_back({"none", "none"});
        }
        arguments.former_option(option.first, "inject-fault", option.second);
    }
}

/// The token for the locks: that of the request, if readable; errors in the request are reported later.
std::string token_for_locks(const std::string& request_file) {
    try {
        return request_file.empty() ? "" : token_of_request(request_file);
    } catch (const std::exception&) {
        return "";
    }
}

/// Writes the document, if requested. A failure becomes the status of the run.
void write(std::unique_ptr<DocumentFile>& file, Document& document, const MachineLocks& locks,
           const LoadWatch& load) {
    if (!file) return;
    try {
        document.locks = locks.json();
        document.load = load.json();
        file->write(document.json().dump() + "\n");
    } catch (const std::exception& error) {
        document.fail(error.what());
    }
    file.reset();
}

}  // namespace

double injected_error(Fault fault, const Verified& of, bool first) {
    constexpr double flipped_bit = 1.0 / 4096;
    const char* const asked = std::getenv("TENKEN_TEST_SPOILED");
    if (fault != Fault::element || (asked == nullptr && !first)) return 0;
    if (asked == nullptr) return flipped_bit;
    const std::string text = asked;
    const std::size_t colon = std::min(text.find(':'), text.size());
    if (text.substr(0, colon) != of.name) return 0;
    return colon == text.size() ? flipped_bit : of.tolerance * std::stod(text.substr(colon + 1));
}

std::vector<FaultKind> rank_faults(bool with_exception) {
    std::vector<FaultKind> kinds = {
        {"rank-kill", "the last rank kills itself by SIGKILL in the middle", "die", "kill"},
        {"rank-stop", "the last rank stops itself by SIGSTOP in the middle", "die", "stop"}};
    if (with_exception) {
        kinds.push_back(
            {"rank-exception", "the last rank throws an exception in the middle", "die", "exception"});
    }
    return kinds;
}

void end_this_rank(const std::string& kind) {
    if (kind == "rank-kill") kill(getpid(), SIGKILL);
    if (kind == "rank-stop") kill(getpid(), SIGSTOP);
    if (kind == "rank-exception") throw std::runtime_error("ended by --inject-fault rank-exception");
}

Waived::Waived(Waiver reason, const std::string& detail)
    : std::runtime_error(std::string(text_of(reason)) + ": " + detail) {}

int run_program(Program& program, int argc, char** argv) {
    Team alone;
    return run_program(program, argc, argv, alone);
}

int run_program(Program& program, int argc, char** argv, Team& team) {
    const std::string name = program.name();
    Run run(name, argc, argv);
    std::string json_file;
    std::string request_file;
    std::string fault = "none";
    bool help = false;
    bool show_version = false;

    run.repetitions = program.default_repetitions();
    Arguments arguments(name, program.purpose());
    program.options(arguments);
    arguments.heading("options of every program");
    arguments.integer("repetitions", run.repetitions, 1, 100000, "timed repetitions, each a sample");
    arguments.real("warmup-seconds", run.warmup_seconds, "s", 0, 600,
                   "duration of the warm-up before timing (at least two repetitions)");
    arguments.text("json", json_file, "FILE", "write the result document to FILE");
    arguments.text(
        "request", request_file, "FILE",
        "the request that this run answers (JSON, schema tenken-request/1): its token is repeated in "
        "the result document");
    arguments.flag("help", help, "print this help");
    arguments.flag("version", show_version, "print the revision of the sources");
    arguments.heading("for tests");
    const std::vector<FaultKind> kinds = program.faults();
    declare_faults(arguments, fault, kinds);

    try {
        arguments.parse(argc, argv);
    } catch (const ArgumentError& wrong) {
        if (team.speaks()) return bad_argument(name, wrong.what());
        // When one process has ended this way, a launcher ends all others, and their output is lost.
        std::this_thread::sleep_for(std::chrono::seconds(1));
        return exit_bad_arguments;
    }
    if (help || show_version) {
        const std::string text = help ? arguments.help() : name + " " + version() + "\n";
        if (team.speaks()) std::fputs(text.c_str(), stdout);
        return exit_ok;
    }
    run.fault = fault == "none"      ? Fault::none
                : fault == "element" ? Fault::element
                : fault == "sample"  ? Fault::sample
                                     : Fault::own;
    program.injected_fault_ = fault;
    bool must_fail = run.fault != Fault::none;
    for (const FaultKind& kind : kinds) must_fail = kind.name == fault ? kind.must_fail : must_fail;

    std::unique_ptr<DocumentFile> file;
    Team::State state;
    // before any access to a GPU, where a context would disturb another measurement
    MachineLocks locks(token_for_locks(request_file), name);
    std::string shared;
    try {
        locks.hold_host();
    } catch (const Shared& other) {
        shared = other.what();
    }
    const LoadWatch load;
    try {
        team.begin();
    } catch (const std::exception& error) {
        run.document.fail(error.what());
    }
    if (run.document.status() == Status::ok) {
        state = shared.empty() ? prepare(program, arguments) : Team::State{Team::State::shared, shared};
    }
    run.document.parameters = arguments.parameters();
    if (!request_file.empty() && team.speaks() && state.grade != Team::State::bad_argument) {
        try {
            run.document.token = token_of_request(request_file);
        } catch (const std::exception& error) {
            state = {Team::State::bad_argument, "--request '" + request_file + "': " + error.what()};
        }
    }
    if (!json_file.empty() && team.speaks() && state.grade != Team::State::bad_argument) {
        try {
            file.reset(new DocumentFile(json_file));
        } catch (const std::exception& error) {
            state = {Team::State::bad_argument, error.what()};
        }
    }
    if (run.document.status() == Status::ok) state = team.agree(state);
    if (state.grade == Team::State::bad_argument) {
        if (team.speaks()) bad_argument(name, state.text);
        team.end();
        return team.speaks() ? exit_bad_arguments : exit_ok;
    }
    if (state.grade == Team::State::waived) run.document.waive(state.text);
    if (state.grade == Team::State::failed) run.document.fail(state.text);
    if (state.grade == Team::State::shared) {
        locks.is_shared(state.text);
        run.document.fail(state.text);
    }

    if (run.document.status() == Status::ok) {
        team.set_last_will([&](const std::string& what) {
            run.document.fail(what);
            write(file, run.document, locks, load);
        });
        const std::string broken = measure(program, run, must_fail, team.speaks());
        if (!broken.empty()) {
            if (team.speaks()) write(file, run.document, locks, load);
            team.abandon(broken);
        }
    }
    team.end();
    if (!team.speaks()) return exit_ok;

    write(file, run.document, locks, load);
    std::fputs(run.document.table().c_str(), stdout);
    if (std::fflush(stdout) != 0) return exit_failed;
    switch (run.document.status()) {
        case Status::ok:
            return exit_ok;
        case Status::waived:
            return exit_waived;
        case Status::failed:
            break;
    }
    return exit_failed;
}

}  // namespace tenken
