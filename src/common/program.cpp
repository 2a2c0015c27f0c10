#include "common/program.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>
#include <thread>

#include "common/version.h"

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

/// prepare(), every exception turned into a state that a team can agree on.
Team::State prepare(Program& program, const Arguments& arguments) {
    try {
        program.prepare(arguments);
    } catch (const Waived& waived) {
        return {Team::State::waived, waived.what()};
    } catch (const ArgumentError& wrong) {
        return {Team::State::bad_argument, wrong.what()};
    } catch (const std::exception& error) {
        // The machine is at fault, not the command line: no driver, say.
        return {Team::State::failed, error.what()};
    }
    return {};
}

/// measure(), every exception turned into the document's status.
/// @return why the others of a team must not wait for this process; empty when it has come to the end
std::string measure(Program& program, Run& run, bool speaks) {
    if (run.fault == Fault::sample) run.document.spoil_next_metric();
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
    if (run.fault != Fault::none && run.document.status() == Status::ok && speaks) {
        run.document.fail("the fault injected by --inject-fault was not noticed");
    }
    return broken;
}

/// Writes the document, if one is asked for. A failure becomes the status of the run.
void write(std::unique_ptr<DocumentFile>& file, Document& document) {
    if (!file) return;
    try {
        file->write(document.json().dump());
    } catch (const std::exception& error) {
        document.fail(error.what());
    }
    file.reset();
}

}  // namespace

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
    std::string fault = "none";
    bool help = false;
    bool show_version = false;

    run.repetitions = program.default_repetitions();
    Arguments arguments(name, program.purpose());
    program.options(arguments);
    arguments.heading("options of every program");
    arguments.integer("repetitions", run.repetitions, 1, 100000, "timed repetitions, each a sample");
    arguments.real("warmup-seconds", run.warmup_seconds, "s", 0, 600,
                   "how long to run before timing (at least two repetitions)");
    arguments.text("json", json_file, "FILE", "write the result document to FILE");
    arguments.flag("help", help, "print this text");
    arguments.flag("version", show_version, "print the revision of the sources");
    arguments.heading("for tests");
    arguments.choice("inject-fault", fault, {"none", "element", "sample"},
                     "do wrong on purpose: flip one bit of one element before the verification, or turn one "
                     "sample into a number that is not finite; the run must then fail");

    try {
        arguments.parse(argc, argv);
    } catch (const ArgumentError& wrong) {
        if (team.speaks()) return bad_argument(name, wrong.what());
        // A launcher ends all as soon as one has ended so, and what the others were about to say is lost.
        std::this_thread::sleep_for(std::chrono::seconds(1));
        return exit_bad_arguments;
    }
    if (help || show_version) {
        const std::string text = help ? arguments.help() : name + " " + version() + "\n";
        if (team.speaks()) std::fputs(text.c_str(), stdout);
        return exit_ok;
    }
    run.fault = fault == "element" ? Fault::element : fault == "sample" ? Fault::sample : Fault::none;

    std::unique_ptr<DocumentFile> file;
    Team::State state;
    try {
        team.begin();
    } catch (const std::exception& error) {
        run.document.fail(error.what());
    }
    if (run.document.status() == Status::ok) state = prepare(program, arguments);
    run.document.parameters = arguments.parameters();
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

    if (run.document.status() == Status::ok) {
        team.set_last_will([&](const std::string& what) {
            run.document.fail(what);
            write(file, run.document);
        });
        const std::string broken = measure(program, run, team.speaks());
        if (!broken.empty()) {
            if (team.speaks()) write(file, run.document);
            team.abandon(broken);
        }
    }
    team.end();
    if (!team.speaks()) return exit_ok;

    write(file, run.document);
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
