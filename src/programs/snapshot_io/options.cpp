// Options of the program snapshot_io, checked for consistency and against the machine before anything is
// allocated.
#include <algorithm>

#include "lib/base/host.h"
#include "lib/base/sweep.h"
#include "lib/file_io/kvikio.h"
#include "lib/file_io/workers.h"
#include "programs/snapshot_io/snapshot_io.h"

namespace snapshot_io {

namespace {

/// The methods, in the order measured; words of --methods. Those not in a MemorySpace's list use
/// HDF5's drivers.
const std::vector<std::string>& methods() {
    static const std::vector<std::string> list = {
        "posix",  "direct",    "gds",         "cufile_compat", "cufile_compat_buffered",
        "kvikio", "hdf5_sec2", "hdf5_direct", "hdf5_select",   "hdf5_gds"};
    return list;
}

}  // namespace

std::string SnapshotIo::purpose() const {
    return "N-body snapshots to and from HDF5 files, in GB/s (10^9 bytes; 36 bytes per particle) by number "
           "of "
           "particles, layout, method and direction.";
}

void SnapshotIo::options(tenken::Arguments& arguments) {
    backend_options(arguments, "host: particles in host memory; cuda: in that of every GPU in turn",
                    "the folder to write in");
    arguments.integer("min-particles", minimum_, 1, std::int64_t{1} << 40, "the smallest snapshot");
    arguments.integer("max-particles", maximum_, 1, std::int64_t{1} << 40,
                      "the largest snapshot; the published range is 16384 to 67108864");
    arguments.former_name("least-particles", "min-particles");
    arguments.former_name("most-particles", "max-particles");
    arguments.integer("factor", factor_, 2, 1024, "factor between numbers of particles");
    arguments.text("layouts", asked_layouts_, "LIST", "all, or asis, hyperslab");
    arguments.text("methods", asked_methods_, "LIST",
                   "all available, or some of posix, direct, gds, cufile_compat, "
                   "cufile_compat_buffered, kvikio, hdf5_sec2, hdf5_direct, hdf5_select, hdf5_gds");
    arguments.text("directions", asked_directions_, "LIST", "all, or write, read");
    arguments.bytes("block-bytes", block_, 4096, std::uint64_t{1} << 30,
                    "maximum block size of the methods that bypass HDF5, a multiple of 4096; reduced to no "
                    "less than 1 MiB so that every thread has a block");
    arguments.integer("threads", threads_, 0, 1024,
                      "threads of those methods, at most one per MiB; 0: those of OpenMP, at most 8");
    arguments.flag("synced", synced_, "writes end with fsync, and it is timed");
    arguments.flag("cold", cold_, "evict files from the page cache before reading");
    arguments.real("seconds", seconds_, "s", 0, 3600,
                   "maximum time for each number of particles, all methods together; at least 5 rounds");
    arguments.real("decide-seconds", decide_seconds_, "s", 0, 3600,
                   "maximum time of further rounds for each number of particles: of methods for which it is "
                   "undecided whether the hyperslab layout reaches 0.9 of the layout as is");
    arguments.text(
        "keep", keep_, "NAME",
        "keep the largest snapshot that was read, in the last of the layouts, in --path under this name");
    arguments.text("times", times_file_, "FILE",
                   "also write all times to FILE, for --other of another process");
    arguments.text("other", other_file_, "FILE",
                   "compare with the times of another process of this job, such as one with "
                   "CUFILE_FORCE_COMPAT_MODE=true");
    gpu_options(arguments);
}

std::vector<tenken::FaultKind> SnapshotIo::faults() const {
    return {{"cut-file", "the file that is read is cut short", "cut-file", ""}};
}

void SnapshotIo::prepare(const tenken::Arguments& arguments) {
    if (maximum_ < minimum_) throw arguments.error("max-particles", "at least --min-particles");
    if (block_ % 4096 != 0) throw arguments.error("block-bytes", "a multiple of 4096");
    sizes_ = tenken::sweep(static_cast<std::uint64_t>(minimum_), static_cast<std::uint64_t>(maximum_),
                           static_cast<std::uint64_t>(factor_));
    if (threads_ == 0) {
        threads_ = std::min(8, file_io::usable_threads());
    }
    for (const std::string& word :
         tenken::all_or_distinct_words(arguments, "layouts", asked_layouts_, {"asis", "hyperslab"})) {
        layouts_.push_back(word == "asis" ? Layout::asis : Layout::hyperslab);
    }
    chosen_methods_ = tenken::all_or_distinct_words(arguments, "methods", asked_methods_, methods());
    for (const std::string& word :
         tenken::all_or_distinct_words(arguments, "directions", asked_directions_, {"write", "read"})) {
        (word == "write" ? writes_ : reads_) = true;
    }
    if (!keep_.empty() && (!reads_ || keep_.find('/') != std::string::npos)) {
        throw arguments.error("keep", "a name without / where snapshots are read (--directions)");
    }
    try {
        if (!other_file_.empty()) other_ = SnapshotTimes::read(other_file_);
    } catch (const std::runtime_error& error) {
        throw arguments.error("other", std::string("a file of --times: ") + error.what());
    }
    try {
        if (!times_file_.empty()) times_document_.reset(new tenken::DocumentFile(times_file_, "--times"));
    } catch (const std::runtime_error& error) {
        throw arguments.error("times", std::string("a file that can be written: ") + error.what());
    }
    std::string why_not;
    library_ = file_io::Hdf5::open(why_not);
    place_ = file_io::find_place(arguments, "path", path_);
    const std::uint64_t bytes = static_cast<std::uint64_t>(maximum_) * file_io::particle_bytes;
    const std::uint64_t files = layouts_.size() + 1;
    file_io::require_space(
        arguments, "path", place_, files * (bytes + (std::uint64_t{1} << 20)),
        std::to_string(files) + " snapshots of " + std::to_string(maximum_) + " particles");
    // The arrays, their packed form, and one dataset in transit through the host.
    const std::uint64_t need = bytes + static_cast<std::uint64_t>(maximum_) * 28;
    const std::uint64_t available = tenken::available_memory_bytes() / 10 * 9;
    const std::uint64_t host_bytes = on_host() ? need + (std::uint64_t{16} << 20) : bytes;
    if (host_bytes > available) {
        throw arguments.error("max-particles", "what fits into memory: " + tenken::format_bytes(host_bytes) +
                                                   " needed on the host, free " +
                                                   tenken::format_bytes(available));
    }
    if (!library_) throw tenken::Waived(tenken::Waiver::library_missing, why_not);
    if (on_host()) return;
    gpus_->prepare(arguments);
    gpus_->require_fit(arguments, "max-particles", need,
                       "arrays of " + std::to_string(maximum_) + " particles");
}

std::string SnapshotIo::why_not(MemorySpace& space, const std::string& method) const {
    const bool past_cache =
        method == "direct" || method == "hdf5_direct" || method == "gds" || method == "cufile_compat";
    if (past_cache && place_.direct_refused) {
        return "O_DIRECT is refused by " + place_.mount.file_system + ": " + *place_.direct_refused;
    }
    if (method == "hdf5_direct" && !library_->has_direct())
        return "this HDF5 was built without its direct driver";
    if (method == "hdf5_gds") {
        if (space.is_host()) return "it takes addresses of a GPU";
        if (!library_->has_gds())
            return "HDF5's GPUDirect Storage driver cannot be loaded: " + library_->why_no_gds();
    }
    if (by_hdf5(method)) return "";
    if (method == "kvikio") return file_io::Kvikio::here().why_not;
    const std::vector<std::string> can = space.methods();
    if (std::find(can.begin(), can.end(), method) != can.end()) return "";
    if (space.is_host()) return "it takes addresses of a GPU";
    if (method == "gds") return "cuFile has no direct path to this file system";
    return std::find(can.begin(), can.end(), "gds") != can.end() ? "cuFile has a direct path"
                                                                 : "there is no cuFile";
}

}  // namespace snapshot_io
