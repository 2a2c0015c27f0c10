// Options of the program storage_map, checked for consistency and against the machine before anything is
// allocated, and the configurations to be tried.
#include <algorithm>
#include <stdexcept>

#include "lib/base/host.h"
#include "lib/base/sweep.h"
#include "lib/file_io/workers.h"
#include "programs/storage_map/storage_map.h"

namespace storage_map {

namespace {

/// The situations, in the order measured; words of --situations.
const std::vector<std::string>& situations() {
    static const std::vector<std::string> list = {"write", "write_synced", "read_cached", "read_cold"};
    return list;
}

}  // namespace

std::string StorageMapProgram::purpose() const {
    return "Files read and written by every method, block size and number of threads over sizes, in GB/s "
           "(10^9 "
           "bytes): the fastest method for each size, as a map; and the gain of choosing by a map.";
}

void StorageMapProgram::options(tenken::Arguments& arguments) {
    backend_options(arguments, "host: data in host memory; cuda: in that of every GPU in turn",
                    "the folder to write in, on the file system to be measured");
    arguments.bytes("min-bytes", minimum_, 4096, std::uint64_t{1} << 50, "the smallest size");
    arguments.bytes("max-bytes", maximum_, 4096, std::uint64_t{1} << 50, "the largest size");
    arguments.former_name("least-bytes", "min-bytes");
    arguments.former_name("most-bytes", "max-bytes");
    arguments.integer("factor", factor_, 2, 1 << 20, "factor between sizes");
    arguments.text(
        "situations", asked_situations_, "LIST",
        "all, or some of write, write_synced (with fsync), read_cached (from the page cache), read_cold "
        "(page cache dropped before)");
    arguments.text("candidates", asked_candidates_, "LIST",
                   "all, few, or methods to try as METHOD_BLOCK_THREADS, such as posix_1mi_8,direct_16mi_4");
    arguments.integer("threads", threads_, 0, 1024,
                      "maximum number of threads per candidate; 0: those of OpenMP, at most 16");
    arguments.real(
        "seconds", seconds_, "s", 0, 3600,
        "maximum time for each size and situation, all candidates together; at least 5 rounds are made");
    arguments.real(
        "decide-seconds", decide_seconds_, "s", 0, 3600,
        "maximum time of further rounds for each size and situation: of methods that may be the fastest "
        "(with --map), or faster than the choice (with --use-map); at least 8 are made if there are any");
    arguments.text("map", map_file_, "FILE", "write the map to FILE");
    arguments.text("use-map", use_map_, "FILE",
                   "compare the choice by this map, written by an earlier run, with every candidate");
    gpu_options(arguments);
}

std::vector<tenken::FaultKind> StorageMapProgram::faults() const {
    return {
        {"cut-file", "a file is cut short before it is read", "cut-file", ""},
        {"slowest-map", "--map gets the slowest method of each size, which a run that uses it must detect",
         "spoil-map", "", false}};
}

void StorageMapProgram::prepare(const tenken::Arguments& arguments) {
    if (maximum_ < minimum_) throw arguments.error("max-bytes", "at least --min-bytes");
    for (std::uint64_t bytes = minimum_; bytes <= maximum_; bytes *= static_cast<std::uint64_t>(factor_)) {
        sizes_.push_back(bytes / 4096 * 4096);
    }
    if (threads_ == 0) {
        threads_ = std::min(16, file_io::usable_threads());
    }
    chosen_situations_ = asked_situations_ == "all" ? situations() : tenken::words_of(asked_situations_);
    for (const std::string& one : chosen_situations_) {
        if (std::find(situations().begin(), situations().end(), one) == situations().end()) {
            throw arguments.error("situations", "all, or some of write,write_synced,read_cached,read_cold");
        }
    }
    if (chosen_situations_.empty()) throw arguments.error("situations", "at least one");
    if (asked_candidates_ != "all" && asked_candidates_ != "few") {
        given_ = listed_ways(arguments, "candidates", asked_candidates_, threads_);
    }
    if (!use_map_.empty()) {
        try {
            used_map_ = file_io::StorageMap::read(use_map_);
            for (const std::string& one : chosen_situations_) used_map_.choose(one, minimum_);
        } catch (const std::runtime_error& error) {
            throw arguments.error("use-map", std::string("a map of this program: ") + error.what());
        }
    }
    place_ = file_io::find_place(arguments, "path", path_);
    file_io::require_space(arguments, "path", place_, 2 * maximum_ + (std::uint64_t{1} << 20),
                           "two files of " + tenken::format_bytes(maximum_));
    if (on_host()) {
        const std::uint64_t available = tenken::available_memory_bytes() / 10 * 9;
        if (maximum_ > available) {
            throw arguments.error(
                "max-bytes", "at most " + tenken::format_bytes(available) + ": the free memory of the host");
        }
    } else {
        gpus_->prepare(arguments);
        gpus_->require_fit(arguments, "max-bytes", maximum_, "the data");
    }
    if (writes_wrong_map() && map_file_.empty()) {
        throw arguments.error("inject-fault", "slowest-map only with --map");
    }
    if (map_file_.empty()) return;
    try {
        map_document_.reset(new tenken::DocumentFile(map_file_, "--map"));
    } catch (const std::runtime_error& error) {
        throw tenken::ArgumentError(error.what());
    }
}

std::vector<IoConfig> StorageMapProgram::candidates_for(MemorySpace& space) {
    std::vector<IoConfig> list;
    if (!given_.empty()) {
        for (const IoConfig& one : given_) {
            const std::string why = why_no_way(space, one.method);
            if (!why.empty()) waive(one.method, why);
        }
        return given_;
    }
    const int maximum = static_cast<int>(threads_);
    const auto add = [&](const std::string& method, std::uint64_t block, int threads) {
        const IoConfig one = {method, block, std::min(threads, maximum)};
        if (why_no_way(space, method).empty() && std::find(list.begin(), list.end(), one) == list.end())
            list.push_back(one);
    };
    const std::uint64_t kib = 1024;
    const std::uint64_t mib = 1024 * kib;
    add("posix", 4 * kib, 1);
    if (asked_candidates_ == "few") {
        add("posix", mib, 1);
        add("posix", 2 * mib, 8);
        add("direct", mib, 1);  // a single disk is busy with one large request
        add("direct", 4 * mib, 8);
    } else {
        for (std::uint64_t block : {256 * kib, mib, 4 * mib}) add("posix", block, 1);
        for (std::uint64_t block : {256 * kib, mib}) add("posix", block, 4);
        for (std::uint64_t block : {mib, 2 * mib}) add("posix", block, 8);
        add("posix", 2 * mib, maximum);
        add("mapped", mib, 1);
        add("mapped", mib, 8);
        for (std::uint64_t block : {mib, 16 * mib}) add("direct", block, 1);
        for (std::uint64_t block : {mib, 4 * mib, 16 * mib}) add("direct", block, 8);
    }
    for (const char* method : {"gds", "cufile_compat", "cufile_compat_buffered"}) {
        add(method, 4 * mib, 1);
        if (asked_candidates_ != "few") add(method, 16 * mib, 1);
        add(method, 16 * mib, 8);
    }
    return list;
}

}  // namespace storage_map
