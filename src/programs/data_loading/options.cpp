// Options of the program data_loading, checked for consistency and against the machine before anything is
// written.
#include <algorithm>
#include <cstdlib>

#include "lib/base/host.h"
#include "lib/base/sweep.h"
#include "lib/file_io/workers.h"
#include "programs/data_loading/data_loading.h"
#include "programs/data_loading/reader.h"

namespace data_loading {

namespace {

template <typename T>
bool has(const std::vector<T>& list, const T& one) {
    return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

std::string DataLoading::purpose() const {
    return "Training data read sample by sample from files while a step computes: samples per second, and "
           "the "
           "share "
           "of the time that the step waits for them.";
}

void DataLoading::options(tenken::Arguments& arguments) {
    backend_options(arguments,
                    "host: batches in host memory, a step of one CPU; cuda: in that of every GPU in turn",
                    "the folder to write the data set in");
    arguments.text(
        "kinds", asked_kinds_, "LIST",
        "speech (features of RNN-T, 253 to 534 KB), deepcam (768 x 1152 x 16 floats), or bytes of a "
        "sample, such as 64ki");
    arguments.text("ways", asked_ways_, "LIST",
                   "all, few, or methods as METHOD_BLOCK_THREADS, such as posix_1mi_4; each thread reads a "
                   "separate sample");
    arguments.text("prefetch", asked_prefetch_, "LIST",
                   "batches read ahead while one is consumed, such as 0,2; 0: no reading during the step");
    arguments.integer("batch", batch_, 0, 4096,
                      "samples per batch; 0: 32 for speech, 2 for deepcam, otherwise as many as fit into 32 "
                      "MiB, at most 64");
    arguments.integer("batches", batches_, 2, 1000000, "batches of an epoch, which reads each sample once");
    arguments.integer("epochs", epochs_, 1, 1000, "epochs per repetition, each reshuffled");
    arguments.real(
        "step-ms", step_ms_, "ms", 0, 60000,
        "time of a step without waiting; its checksums are part of it, and prolong it if they take longer");
    arguments.integer("threads", threads_, 0, 1024,
                      "maximum number of threads per method; 0: those of OpenMP, at most 16");
    arguments.flag("in-order", in_order_, "samples are not shuffled");
    arguments.flag("cold", cold_, "read files that are not in the page cache; only with --epochs 1");
    arguments.real("seconds", seconds_, "s", 0, 3600,
                   "maximum time for each kind, all methods together; at least 3 rounds are made");
    gpu_options(arguments);
}

std::vector<tenken::FaultKind> DataLoading::faults() const {
    return {{"stale-sample", "one sample is not read: its place in the batch holds what was there before", "",
             ""},
            {"sample-twice", "an epoch reads one sample twice, and another one not at all", "", ""}};
}

void DataLoading::read_lists(const tenken::Arguments& arguments) {
    for (const std::string& word : tenken::words_of(asked_kinds_)) {
        Kind kind;
        if (!Kind::of(word, kind)) {
            throw arguments.error(
                "kinds",
                "a list of speech, deepcam, or sizes from 4096 to 4gi bytes, multiples of 4, as 64ki");
        }
        for (const Kind& other : kinds_) {
            if (other.name == word) throw arguments.error("kinds", "different ones");
        }
        kinds_.push_back(kind);
    }
    if (kinds_.empty()) throw arguments.error("kinds", "at least one");
    for (const std::string& word : tenken::words_of(asked_prefetch_)) {
        char* end = nullptr;
        const long ahead = std::strtol(word.c_str(), &end, 10);
        const bool number = !word.empty() && *end == '\0' && word[0] >= '0' && word[0] <= '9';
        if (!number || ahead > 64 || has(ahead_, static_cast<std::size_t>(ahead))) {
            throw arguments.error("prefetch", "different numbers from 0 to 64, comma-separated");
        }
        ahead_.push_back(static_cast<std::size_t>(ahead));
    }
    if (ahead_.empty()) throw arguments.error("prefetch", "at least one number");
    if (asked_ways_ == "all" || asked_ways_ == "few") return;
    given_ = listed_ways(arguments, "ways", asked_ways_, threads_);
}

std::size_t DataLoading::largest_ring() const {
    return *std::max_element(ahead_.begin(), ahead_.end()) + 1;
}

void DataLoading::prepare(const tenken::Arguments& arguments) {
    if (threads_ == 0) threads_ = std::min(16, file_io::usable_threads());
    read_lists(arguments);
    if (cold_ && epochs_ > 1) {
        throw arguments.error("epochs", "1 with --cold: a second epoch would find its files in memory");
    }
    place_ = file_io::find_place(arguments, "path", path_);
    library_ = file_io::Hdf5::open(why_no_hdf5_);
    std::uint64_t largest = 0;
    std::uint64_t memory = 0;
    for (const Kind& kind : kinds_) {
        largest = std::max(largest, samples_of(kind) * stride_of(kind));
        memory = std::max(memory, largest_ring() * batch_of(kind) * stride_of(kind));
    }
    // with HDF5 each sample exists a second time, in an HDF5 file
    file_io::require_space(arguments, "path", place_, (library_ ? 2 : 1) * largest,
                           "a data set of " + tenken::format_bytes(largest) + (library_ ? " twice" : ""));
    const std::uint64_t host_bytes = on_host() ? memory : std::uint64_t{1} << 28;
    const std::uint64_t available = tenken::available_memory_bytes() / 10 * 9;
    if (host_bytes > available) {
        throw arguments.error("prefetch", "what fits into memory: batches of " +
                                              tenken::format_bytes(host_bytes) + ", free " +
                                              tenken::format_bytes(available));
    }
    if (on_host()) return;
    gpus_->prepare(arguments);
    gpus_->require_fit(arguments, "prefetch", memory + (std::uint64_t{1} << 29),
                       "batches and the step's arrays");
}

std::vector<IoConfig> DataLoading::ways(MemorySpace& space) {
    const auto missing = [&](const std::string& method) {
        if (by_hdf5(method)) return library_ ? std::string() : why_no_hdf5_;
        return why_no_way(space, method);
    };
    std::vector<IoConfig> list;
    if (!given_.empty()) {
        for (const IoConfig& one : given_) {
            const std::string why = missing(one.method);
            if (!why.empty()) waive(one.method, why);
        }
        return given_;
    }
    const int most = static_cast<int>(threads_);
    const auto add = [&](const std::string& method, std::uint64_t mib, int threads) {
        const IoConfig one = {method, mib << 20, std::min(threads, most)};
        const std::string why = missing(method);
        if (!why.empty()) {
            run_->document.path("left_out." + method, why);
        } else if (!has(list, one)) {
            list.push_back(one);
        }
    };
    const bool all = asked_ways_ == "all";
    if (all) add("posix", 1, 1);
    if (all) add("posix", 1, 4);
    add("posix", 1, most);
    add("direct", 4, most);
    if (all) add("mapped", 1, most);
    for (const char* method : {"gds", "cufile_compat"}) {
        if (space.is_host()) break;
        if (all) add(method, 4, 1);
        add(method, 16, most);
    }
    add("kvikio", 4, most);
    add("hdf5", 1, most);
    return list;
}

}  // namespace data_loading
