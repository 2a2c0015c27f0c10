#include "common/program.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <new>

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

/// prepare() and measure(), every exception turned into the document's status.
void measure(Program& program, Run& run) {
    if (run.fault == Fault::sample) run.document.spoil_next_metric();
    try {
        program.measure(run);
        if (!run.document.checked()) run.document.fail("the program verified nothing");
    } catch (const Waived& waived) {
        run.document.waive(waived.what());
    } catch (const std::bad_alloc&) {
        run.document.fail("out of memory");
    } catch (const std::exception& error) {
        run.document.fail(error.what());
    }
    if (run.fault != Fault::none && run.document.status() == Status::ok) {
        run.document.fail("the fault injected by --inject-fault was not noticed");
    }
}

}  // namespace

Waived::Waived(Waiver reason, const std::string& detail)
    : std::runtime_error(std::string(text_of(reason)) + ": " + detail) {}

int run_program(Program& program, int argc, char** argv) {
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

    std::unique_ptr<DocumentFile> file;
    try {
        arguments.parse(argc, argv);
        if (help || show_version) {
            std::fputs(help ? arguments.help().c_str() : (name + " " + version() + "\n").c_str(), stdout);
            return exit_ok;
        }
        run.fault = fault == "element" ? Fault::element : fault == "sample" ? Fault::sample : Fault::none;
        try {
            program.prepare(arguments);
        } catch (const Waived& waived) {
            run.document.waive(waived.what());
        } catch (const ArgumentError&) {
            throw;
        } catch (const std::exception& error) {
            run.document.fail(error.what());  // the machine is at fault, not the command line: no driver, say
        }
        run.document.parameters = arguments.parameters();
        if (!json_file.empty()) file.reset(new DocumentFile(json_file));
    } catch (const std::exception& error) {
        return bad_argument(name, error.what());
    }

    if (run.document.status() == Status::ok) measure(program, run);

    if (file) {
        try {
            file->write(run.document.json().dump());
        } catch (const std::exception& error) {
            run.document.fail(error.what());
        }
    }
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
