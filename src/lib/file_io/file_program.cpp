#include "lib/file_io/file_program.h"

#include <algorithm>
#include <stdexcept>

#include "lib/base/placement.h"
#include "lib/base/sweep.h"

namespace file_io {

namespace {

bool goes_direct(const std::string& method) {
    return method == "direct" || method == "gds" || method == "cufile_compat";
}

}  // namespace

void FileProgram::backend_options(tenken::Arguments& arguments, const std::string& backend_help,
                                  const std::string& path_help) {
    arguments.choice("backend", backend_, tenken::backends(gpus_ != nullptr), backend_help);
    arguments.text("path", path_, "DIR", path_help);
}

void FileProgram::gpu_options(tenken::Arguments& arguments) {
    if (!gpus_) return;
    arguments.heading("back end cuda");
    gpus_->options(arguments);
}

std::vector<IoConfig> FileProgram::listed_ways(const tenken::Arguments& arguments, const std::string& option,
                                               const std::string& list, std::int64_t threads) {
    std::vector<IoConfig> ways;
    for (const std::string& one : tenken::words_of(list)) {
        try {
            ways.push_back(IoConfig::of(one));
        } catch (const std::invalid_argument& error) {
            throw arguments.error(option, std::string("all, few, or a list: ") + error.what());
        }
        if (ways.back().threads > threads) {
            throw arguments.error(option,
                                  "ways of at most " + std::to_string(threads) + " threads (--threads)");
        }
        // metrics are reported under these names
        if (ways.back().name() != one || std::count(ways.begin(), ways.end(), ways.back()) > 1) {
            throw arguments.error(option, "different ones, each by its usual name: " + ways.back().name());
        }
    }
    if (ways.empty()) throw arguments.error(option, "at least one");
    return ways;
}

std::string FileProgram::why_no_way(MemorySpace& space, const std::string& method) const {
    if (goes_direct(method) && place_.direct_refused) {
        return "O_DIRECT on " + place_.mount.file_system + ": " + *place_.direct_refused;
    }
    const std::vector<std::string> can = space.methods();
    if (std::find(can.begin(), can.end(), method) != can.end()) return "";
    return "there is no " + method + " on " + space.name() + " here";
}

void FileProgram::waive(const std::string& method, const std::string& why) const {
    throw tenken::Waived(method == "gds" ? tenken::Waiver::no_gpudirect_storage
                         : goes_direct(method) && place_.direct_refused
                             ? tenken::Waiver::not_supported_by_the_file_system
                             : tenken::Waiver::library_missing,
                         why);
}

void FileProgram::begin(tenken::Run& run) {
    run_ = &run;
    run.document.build.backends = tenken::backends(gpus_ != nullptr);
    run.document.path("backend", backend_);
    place_.describe(run.document);
}

void FileProgram::on_each_space(int host_threads, int threads,
                                const std::function<void(MemorySpace&)>& work) {
    if (on_host()) {
        work(*make_host_memory_space(host_threads));
    } else {
        try {
            gpus_->each(threads, place_.folder, [&](MemorySpace& space) {
                work(space);
                add_link(space);
            });
        } catch (const tenken::Waived&) {
            gpus_->describe_cufile(run_->document);  // most often the reason, in its own words
            throw;
        }
    }
}

void FileProgram::add_link(MemorySpace& space) {
    for (const bool to_memory : {true, false}) {
        tenken::Metric copy;
        copy.name = to_memory ? "link_to_gpu" : "link_from_gpu";
        copy.subject = space.subject();
        copy.clock = "device";
        copy.timed(space.link_seconds(to_memory), {{"bytes", static_cast<double>(link_bytes)}});
        run_->document.add(copy);
    }
}

void FileProgram::end() {
    run_->document.placement = tenken::find_placement();
    if (gpus_ && !on_host()) gpus_->report(run_->document);
}

}  // namespace file_io
