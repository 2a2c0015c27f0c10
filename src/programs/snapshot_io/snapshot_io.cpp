// Snapshots of an N-body simulation, written to and read from HDF5 files out of the memory of a GPU or the
// host.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>

#include "lib/base/clock.h"
#include "lib/base/host.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#include "lib/base/statistics.h"
#include "lib/file_io/check_file.h"
#include "lib/file_io/gds_probe.h"
#include "lib/file_io/hdf5.h"
#include "lib/file_io/kvikio.h"
#include "lib/file_io/memory_space.h"
#include "lib/file_io/particles.h"
#include "lib/file_io/place.h"
#include "lib/file_io/rounds.h"
#include "lib/file_io/scratch.h"
#include "lib/file_io/workers.h"

namespace {

using file_io::Driver;
using file_io::File;
using file_io::IoConfig;
using file_io::Layout;
using file_io::Memory;
using file_io::MemorySpace;
using file_io::Pieces;
using file_io::Quartet;
using file_io::Segment;
using file_io::SnapshotFile;

/// The methods, in the order measured; a word of --methods. What is not in a MemorySpace's list goes by
/// HDF5's drivers.
const std::vector<std::string>& methods() {
    static const std::vector<std::string> list = {
        "posix",  "direct",    "gds",         "cufile_compat", "cufile_compat_buffered",
        "kvikio", "hdf5_sec2", "hdf5_direct", "hdf5_select",   "hdf5_gds"};
    return list;
}
bool by_hdf5(const std::string& method) {
    return method.compare(0, 5, "hdf5_") == 0;
}
Driver driver_of(const std::string& method) {
    return method == "hdf5_direct" ? Driver::direct : method == "hdf5_gds" ? Driver::gds : Driver::sec2;
}

/// What the hyperslab layout must reach of the layout as it is; tenken/judge/file_cross_checks.py holds it
/// against the same.
constexpr double layout_bound = 0.9;
/// From so many bytes on a written snapshot is settled before the next way's turn, a thread is woken, and a
/// block is cut.
constexpr std::uint64_t worthwhile = std::uint64_t{1} << 20;

/// One way of writing and reading a snapshot: what run_rounds() compares.
struct SnapshotConfig {
    Layout layout;
    std::string method;
    bool write;

    std::string text() const {
        return std::string(write ? "write" : "read") + " of " + name_of(layout) + " by " + method;
    }
};

/// Seconds of the parts of one repetition.
struct Parts {
    double open = 0;
    double data = 0;
    double sync = 0;
    double close = 0;
};

class SnapshotIo : public tenken::Program {
  public:
    SnapshotIo() : gpus_(file_io::make_gpu_memory_spaces()) {}

    std::string name() const override { return "snapshot_io"; }
    std::string purpose() const override {
        return "N-body snapshots to and from HDF5 files, in GB/s (10^9 bytes; 36 bytes a particle) by number "
               "of "
               "particles, layout, method and direction.";
    }

    void options(tenken::Arguments& arguments) override {
        std::vector<std::string> backends = {"host"};
        if (gpus_) backends.push_back("cuda");
        arguments.choice("backend", backend_, backends,
                         "host: particles in host memory; cuda: in that of every GPU in turn");
        arguments.text("path", path_, "DIR", "the folder to write in");
        arguments.integer("min-particles", minimum_, 1, std::int64_t{1} << 40, "the smallest snapshot");
        arguments.integer("max-particles", maximum_, 1, std::int64_t{1} << 40,
                          "the largest snapshot; the published range is 16384 to 67108864");
        arguments.former_name("least-particles", "min-particles");
        arguments.former_name("most-particles", "max-particles");
        arguments.integer("factor", factor_, 2, 1024, "from one number of particles to the next");
        arguments.text("layouts", asked_layouts_, "LIST", "all, or asis, hyperslab");
        arguments.text("methods", asked_methods_, "LIST",
                       "all that there are, or some of posix, direct, gds, cufile_compat, "
                       "cufile_compat_buffered, kvikio, hdf5_sec2, hdf5_direct, hdf5_select, hdf5_gds");
        arguments.text("directions", asked_directions_, "LIST", "all, or write, read");
        arguments.bytes(
            "block-bytes", block_, 4096, std::uint64_t{1} << 30,
            "largest block of the methods that go past HDF5, a multiple of 4096; down to 1 MiB where "
            "threads had none else");
        arguments.integer(
            "threads", threads_, 0, 1024,
            "threads of those methods, one for each MiB at most; 0: those of OpenMP, at most 8");
        arguments.flag("synced", synced_, "writes end with fsync, and it is timed");
        arguments.flag("cold", cold_, "files to be read are taken out of the page cache before");
        arguments.real("seconds", seconds_, "s", 0, 3600,
                       "timed at most for each number of particles, all ways together; 5 rounds in any case");
        arguments.real("decide-seconds", decide_seconds_, "s", 0, 3600,
                       "further rounds at most for each number of particles: of methods of which it is open "
                       "whether the hyperslab layout reaches 0.9 of the layout as it is");
        arguments.text(
            "keep", keep_, "NAME",
            "keep the largest snapshot that was read, in the last of the layouts, in --path under this name");
        if (!gpus_) return;
        arguments.heading("back end cuda");
        gpus_->options(arguments);
    }

    std::vector<tenken::FaultKind> faults() const override {
        return {{"cut-file", "the file that is read is cut short", "cut-file", ""}};
    }

    void prepare(const tenken::Arguments& arguments) override {
        if (maximum_ < minimum_) throw arguments.error("max-particles", "at least --min-particles");
        if (block_ % 4096 != 0) throw arguments.error("block-bytes", "a multiple of 4096");
        for (std::int64_t n = minimum_; n <= maximum_; n *= factor_)
            sizes_.push_back(static_cast<std::uint64_t>(n));
        if (threads_ == 0) {
            threads_ = std::min(8, file_io::usable_threads());
        }
        for (const std::string& word : chosen(arguments, "layouts", asked_layouts_, {"asis", "hyperslab"})) {
            layouts_.push_back(word == "asis" ? Layout::asis : Layout::hyperslab);
        }
        chosen_methods_ = chosen(arguments, "methods", asked_methods_, methods());
        for (const std::string& word :
             chosen(arguments, "directions", asked_directions_, {"write", "read"})) {
            (word == "write" ? writes_ : reads_) = true;
        }
        if (!keep_.empty() && (!reads_ || keep_.find('/') != std::string::npos)) {
            throw arguments.error("keep", "a name without / where snapshots are read (--directions)");
        }
        std::string why_not;
        library_ = file_io::Hdf5::open(why_not);
        place_ = file_io::find_place(arguments, "path", path_);
        const std::uint64_t bytes = static_cast<std::uint64_t>(maximum_) * file_io::particle_bytes;
        const std::uint64_t files = layouts_.size() + 1;
        file_io::require_space(
            arguments, "path", place_, files * (bytes + (std::uint64_t{1} << 20)),
            std::to_string(files) + " snapshots of " + std::to_string(maximum_) + " particles");
        // The arrays, their packed form, and one dataset on its way through the host.
        const std::uint64_t need = bytes + static_cast<std::uint64_t>(maximum_) * 28;
        const std::uint64_t available = tenken::available_memory_bytes() / 10 * 9;
        const std::uint64_t on_host = backend_ == "host" ? need + (std::uint64_t{16} << 20) : bytes;
        if (on_host > available) {
            throw arguments.error("max-particles", "what fits into memory: " + tenken::format_bytes(on_host) +
                                                       " needed on the host, free " +
                                                       tenken::format_bytes(available));
        }
        if (!library_) throw tenken::Waived(tenken::Waiver::library_missing, why_not);
        if (backend_ == "host") return;
        gpus_->prepare(arguments);
        gpus_->require_fit(arguments, "max-particles", need,
                           "arrays of " + std::to_string(maximum_) + " particles");
    }

    void measure(tenken::Run& run) override {
        run_ = &run;
        tenken::Document& document = run.document;
        document.build.backends = {"host"};
        if (gpus_) document.build.backends.push_back("cuda");
        document.build.libraries.push_back({"HDF5", library_->version()});
        document.path("backend", backend_);
        document.path("hdf5_library", library_->file_name());
        document.path("hdf5_multi", library_->has_multi() ? "H5Dwrite_multi and H5Dread_multi"
                                                          : "one dataset after the other");
        document.path(
            "timed",
            "the transfer of the four datasets, packing included; creating, opening and closing the file are "
            "in seconds of their own");
        if (file_io::Kvikio::here().library) document.path("kvikio", file_io::Kvikio::here().library->way());
        place_.describe(document);
        if (backend_ == "host") {
            measure_on(*file_io::make_host_memory_space(static_cast<int>(threads_)));
        } else {
            gpus_->each(static_cast<int>(threads_), place_.folder,
                        [&](MemorySpace& space) { measure_on(space); });
        }
        document.placement = tenken::find_placement();
        if (gpus_ && backend_ != "host") gpus_->report(document);
    }

  private:
    static std::vector<std::string> chosen(const tenken::Arguments& arguments, const std::string& option,
                                           const std::string& asked,
                                           const std::vector<std::string>& allowed) {
        std::string list;
        for (const std::string& one : allowed) list += (list.empty() ? "" : ",") + one;
        std::istringstream in(asked == "all" ? list : asked);
        std::vector<std::string> words;
        std::string word;
        while (std::getline(in, word, ',')) {
            if (std::find(allowed.begin(), allowed.end(), word) == allowed.end() ||
                std::find(words.begin(), words.end(), word) != words.end()) {
                throw arguments.error(option, "all, or different ones of " + list);
            }
            words.push_back(word);
        }
        if (words.empty()) throw arguments.error(option, "all, or different ones of " + list);
        return words;
    }

    /// Why a method cannot be used here; empty when it can.
    std::string why_not(MemorySpace& space, const std::string& method) const {
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
        if (method == "gds") return "cuFile does not go straight to this file system";
        return std::find(can.begin(), can.end(), "gds") != can.end() ? "cuFile goes straight"
                                                                     : "there is no cuFile";
    }

    void measure_on(MemorySpace& space) {
        std::vector<std::string> usable;
        for (const std::string& method : chosen_methods_) {
            const std::string why = why_not(space, method);
            if (why.empty()) {
                usable.push_back(method);
                continue;
            }
            run_->document.path("left_out." + method, why);
            if (asked_methods_ == "all") continue;
            // Asked for by name: a run without it would not be what was asked.
            throw tenken::Waived(method == "gds"         ? tenken::Waiver::no_gpudirect_storage
                                 : place_.direct_refused ? tenken::Waiver::not_supported_by_the_file_system
                                                         : tenken::Waiver::library_missing,
                                 method + ": " + why);
        }
        const std::uint64_t maximum = sizes_.back();
        for (int a = 0; a < file_io::arrays; ++a) {
            memory_[a] = space.allocate(maximum * file_io::array_words[a] * 4);
            arrays_.at[a] = memory_[a].get();
        }
        for (int d = 0; d < 3; ++d) {
            packed_memory_[d] = space.allocate(maximum * datasets_of(Layout::hyperslab)[d].words() * 4);
            packed_.at[d] = packed_memory_[d].get();
        }
        packed_.at[3] = arrays_.at[file_io::id];
        for (std::uint64_t n : sizes_) at_size(space, n, usable);
        for (Memory& one : memory_) one.reset();
        for (Memory& one : packed_memory_) one.reset();
        for (Memory& one : staged_) one.reset();
    }

    void at_size(MemorySpace& space, std::uint64_t n, const std::vector<std::string>& usable) {
        const file_io::RunFolder folder(place_.folder, "snapshot_io");
        folder_ = &folder;
        particles_ = n;
        for (int a = 0; a < file_io::arrays; ++a) {
            space.fill(arrays_.at[a], n * file_io::array_words[a], content_.words(a));
        }
        std::vector<SnapshotConfig> configs;
        std::vector<std::unique_ptr<file_io::ScratchFile>> sources;
        for (Layout layout : layouts_) {
            sources.emplace_back(new file_io::ScratchFile(source(layout)));
            if (reads_) make_source(space, layout, *sources.back());
            for (const std::string& method : usable) {
                // The layout as it is needs no selection.
                if (method == "hdf5_select" && layout == Layout::asis) continue;
                if (writes_) configs.push_back({layout, method, true});
                if (reads_) configs.push_back({layout, method, false});
            }
        }
        std::vector<file_io::Pair> pairs;
        std::vector<std::size_t> groups(configs.size());
        for (std::size_t i = 0; i < configs.size(); ++i) {
            groups[i] = i;
            for (std::size_t j = 0; j < i; ++j) {
                if (configs[j].method != configs[i].method || configs[j].write != configs[i].write) continue;
                const bool packed = configs[i].layout == Layout::hyperslab;
                pairs.push_back({packed ? i : j, packed ? j : i});
                groups[i] = j;
            }
        }
        if (configs.empty()) throw tenken::Waived(tenken::Waiver::library_missing, "no method is left");
        io_backends_.clear();
        for (const std::string& method : usable) {
            const int threads = threads_for(n);
            const IoConfig config = IoConfig{method, block_for(n, threads), threads};
            if (!by_hdf5(method)) io_backends_[method] = space.io_backend(config);
        }
        std::vector<std::vector<Parts>> parts(configs.size());
        file_io::Rounds rounds;
        rounds.maximum = run_->repetitions;
        rounds.minimum = std::min<long>(5, rounds.maximum);
        rounds.seconds = seconds_;
        rounds.keep = 0;  // all of them are wanted, however slow
        rounds.seed = static_cast<std::uint32_t>(n);
        rounds.groups = groups;  // the layouts of a method beside each other
        cached_min_ = 1;
        cold_max_ = 0;
        space.begin_timed();
        const file_io::Once once = [&](std::size_t i, long round) {
            const Parts one =
                configs[i].write ? write(space, configs[i], round == 0) : read(space, configs[i], round == 0);
            // What a write leaves to the device is not to be paid for by the next way.
            if (configs[i].write && n * file_io::particle_bytes >= worthwhile) folder.settle();
            if (round > 0) parts[i].push_back(one);
            return one.data + one.sync;
        };
        file_io::Times times = file_io::run_rounds(configs.size(), rounds, once);
        file_io::Deciding limit;
        limit.seconds = decide_seconds_;
        limit.seed = rounds.seed + 1;
        const std::vector<file_io::Pair> open =
            file_io::decide_pairs(times, pairs, layout_bound, limit, once);
        space.end_timed();
        io_backends_.clear();
        report(space, configs, parts);
        tell_open(space, configs, times, open);
        if (!keep_.empty() && n == sizes_.back() && run_->document.status() == tenken::Status::ok)
            keep(sources);
    }

    void keep(const std::vector<std::unique_ptr<file_io::ScratchFile>>& sources) const {
        const std::string name = place_.folder + "/" + keep_;
        if (std::rename(sources.back()->path().c_str(), name.c_str()) != 0) {
            throw file_io::FileError("cannot keep " + name + ": " + std::strerror(errno));
        }
    }

    std::string source(Layout layout) const { return folder_->file(std::string(name_of(layout)) + ".h5"); }

    /// A thread that is woken for less than is worthwhile costs more than it brings.
    int threads_for(std::uint64_t particles) const {
        const std::uint64_t useful = particles * file_io::particle_bytes / worthwhile;
        return static_cast<int>(std::min<std::uint64_t>(threads_, std::max<std::uint64_t>(1, useful)));
    }

    /// Blocks so small that every thread has one, but of a MiB at least.
    std::uint64_t block_for(std::uint64_t particles, int threads) const {
        const std::uint64_t bytes = particles * file_io::particle_bytes;
        std::uint64_t block = block_;
        while (bytes / block < static_cast<std::uint64_t>(threads) && block >= 2 * worthwhile &&
               block % 8192 == 0) {
            block /= 2;
        }
        return block;
    }

    /// Where the datasets of an open file lie and where they come from, or go to, in memory.
    std::vector<Segment> segments(const SnapshotFile& file, const Quartet& memory) const {
        std::vector<Segment> list;
        for (int d = 0; d < file_io::datasets; ++d)
            list.push_back({file.offset(d), file.bytes(d), memory.at[d]});
        return list;
    }

    /// Host memory for each dataset, or array, of this size.
    Quartet staging(MemorySpace& space) {
        Quartet quartet;
        for (int a = 0; a < file_io::arrays; ++a) {
            // Large enough for array and dataset of this number in either layout.
            const unsigned words = std::max({file_io::array_words[a], datasets_of(Layout::asis)[a].words(),
                                             datasets_of(Layout::hyperslab)[a].words()});
            if (!staged_[a]) staged_[a] = space.staging(sizes_.back() * words * 4);
            quartet.at[a] = staged_[a].get();
        }
        return quartet;
    }

    /// The file that is read: written through HDF5, on the device when it is read for the first time.
    void make_source(MemorySpace& space, Layout layout, file_io::ScratchFile& scratch) {
        const std::unique_ptr<SnapshotFile> file =
            SnapshotFile::create(library_, scratch.path(), layout, particles_, Driver::sec2);
        const Quartet& memory = layout == Layout::asis ? arrays_ : packed_;
        if (layout == Layout::hyperslab) space.pack(arrays_, packed_, particles_);
        const std::vector<Segment> list = segments(*file, memory);
        file->close();
        File plain(scratch.path(), File::Mode::modify, false);
        space.io_backend(IoConfig{"posix", 1 << 20, 1})->write(plain, list);
        plain.sync();
        if (run_->fault == tenken::Fault::element && !fault_made_) {
            file_io::flip_bit(plain, list[0].offset + list[0].bytes / 2);
        }
        fault_made_ = true;
        if (injected_fault() == "cut-file" &&
            ftruncate(plain.descriptor(), static_cast<off_t>(list[3].offset + 4096)) != 0) {
            throw file_io::FileError("cannot cut " + scratch.path());
        }
        scratch.finish();
    }

    Parts write(MemorySpace& space, const SnapshotConfig& config, bool verify) {
        file_io::ScratchFile scratch(folder_->file("new.h5"));
        const bool select = config.method == "hdf5_select";
        Quartet staged = arrays_;
        if (by_hdf5(config.method) && config.method != "hdf5_gds" && !space.is_host())
            staged = staging(space);
        const bool packing = config.layout == Layout::hyperslab && !select;
        if (packing && !by_hdf5(config.method)) io_backends_.at(config.method)->expect_packing();
        Parts parts;
        double now = tenken::now_seconds();
        const auto lap = [&now] {
            const double before = now;
            now = tenken::now_seconds();
            return now - before;
        };
        std::unique_ptr<SnapshotFile> file =
            SnapshotFile::create(library_, scratch.path(), config.layout, particles_,
                                 by_hdf5(config.method) ? driver_of(config.method) : Driver::sec2,
                                 select ? Pieces::selections : Pieces::datasets);
        const Quartet& memory = packing ? packed_ : arrays_;
        const std::vector<Segment> list = segments(*file, memory);
        std::unique_ptr<File> plain;
        if (by_hdf5(config.method)) {
            parts.open = lap();
            if (config.method == "hdf5_gds") {
                if (packing) {
                    space.pack(arrays_, packed_, particles_);
                    space.wait();
                }
                file->write(memory);
            } else if (space.is_host()) {
                if (packing) space.pack(arrays_, packed_, particles_);
                select ? file->write_selected(arrays_) : file->write(memory);
            } else {
                // The kernel packs into page-locked memory: of the datasets only the ids are left to copy.
                for (int d = packing ? file_io::id : 0; d < file_io::datasets; ++d) {
                    const std::uint64_t bytes =
                        select ? particles_ * file_io::array_words[d] * 4 : file->bytes(d);
                    space.to_host(staged.at[d], memory.at[d], bytes);
                }
                if (packing) space.pack(arrays_, staged, particles_);
                space.wait();
                select ? file->write_selected(staged) : file->write(staged);
            }
            parts.data = lap();
            file->close();
            parts.close = lap();
            if (synced_) {
                File(scratch.path(), File::Mode::modify, false).sync();
                parts.sync = lap();
            }
        } else {
            file->close();
            file_io::IoBackend& io_backend = *io_backends_.at(config.method);
            plain.reset(new File(scratch.path(), File::Mode::modify, io_backend.needs_direct()));
            io_backend.attach(*plain);
            parts.open = lap();
            packing ? io_backend.write_packed(space, *plain, {arrays_, packed_, particles_}, list)
                    : io_backend.write(*plain, list);
            parts.data = lap();
            if (synced_) {
                plain->sync();
                parts.sync = lap();
            }
            io_backend.detach(*plain);
            plain.reset();
            parts.close = lap();
        }
        scratch.finish();  // only a whole snapshot bears the name
        if (verify) verify_file(space, config, scratch.path(), list);
        return parts;
    }

    Parts read(MemorySpace& space, const SnapshotConfig& config, bool verify) {
        {
            File file(source(config.layout), File::Mode::read, false);
            if (cold_) {
                cold_max_ = std::max(cold_max_, file.drop_cache());
            } else {
                cached_min_ = std::min(cached_min_, warm(file));
            }
        }
        const bool select = config.method == "hdf5_select";
        Quartet staged = arrays_;
        if (by_hdf5(config.method) && config.method != "hdf5_gds" && !space.is_host())
            staged = staging(space);
        if (verify) {
            for (int a = 0; a < file_io::arrays; ++a) {
                space.clear(arrays_.at[a], particles_ * file_io::array_words[a] * 4);
            }
            for (int d = 0; d < 3; ++d) {
                space.clear(packed_.at[d], particles_ * datasets_of(Layout::hyperslab)[d].words() * 4);
            }
        }
        const bool packing = config.layout == Layout::hyperslab && !select;
        if (packing && !by_hdf5(config.method)) io_backends_.at(config.method)->expect_packing();
        Parts parts;
        double now = tenken::now_seconds();
        const auto lap = [&now] {
            const double before = now;
            now = tenken::now_seconds();
            return now - before;
        };
        std::unique_ptr<SnapshotFile> file =
            SnapshotFile::open(library_, source(config.layout), config.layout, particles_,
                               by_hdf5(config.method) ? driver_of(config.method) : Driver::sec2,
                               select ? Pieces::selections : Pieces::datasets);
        const Quartet& memory = packing ? packed_ : arrays_;
        const std::vector<Segment> list = segments(*file, memory);
        if (by_hdf5(config.method)) {
            parts.open = lap();
            if (config.method == "hdf5_gds") {
                file->read(memory);
            } else if (space.is_host()) {
                select ? file->read_selected(arrays_) : file->read(memory);
            } else {
                select ? file->read_selected(staged) : file->read(staged);
                for (int d = 0; d < file_io::datasets; ++d) {
                    const std::uint64_t bytes =
                        select ? particles_ * file_io::array_words[d] * 4 : file->bytes(d);
                    space.from_host(memory.at[d], staged.at[d], bytes);
                }
            }
            if (packing) space.unpack(packed_, arrays_, particles_);
            space.wait();
            parts.data = lap();
            file->close();
            parts.close = lap();
        } else {
            file->close();
            file_io::IoBackend& io_backend = *io_backends_.at(config.method);
            File plain(source(config.layout), File::Mode::read, io_backend.needs_direct());
            io_backend.attach(plain);
            parts.open = lap();
            packing ? io_backend.read_packed(space, plain, {arrays_, packed_, particles_}, list)
                    : io_backend.read(plain, list);
            space.wait();
            parts.data = lap();
            io_backend.detach(plain);
            parts.close = lap();
        }
        if (verify) verify_arrays(space, config, list);
        return parts;
    }

    /// Brings the file into the page cache. @return the part of it that is there then
    static double warm(File& file) {
        const double share = file.cached_share();
        if (share == 1) return share;
        std::vector<char> piece(std::size_t{1} << 20);
        const std::uint64_t bytes = file.size();
        for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
            file.read(file_io::Access::buffered, at,
                      static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - at)),
                      piece.data());
        }
        return file.cached_share();
    }

    /// What was written, read plainly and compared word by word.
    void verify_file(MemorySpace& space, const SnapshotConfig& config, const std::string& path,
                     const std::vector<Segment>& list) {
        File file(path, File::Mode::modify, false);
        if (run_->fault == tenken::Fault::element && !fault_made_) {
            file_io::flip_bit(file, list[0].offset + list[0].bytes / 2);
        }
        fault_made_ = true;
        for (int d = 0; d < file_io::datasets; ++d) {
            const file_io::DatasetWords expected = {content_, config.layout, d};
            const std::size_t i = static_cast<std::size_t>(d);
            const file_io::Mismatch mismatch =
                file_io::compare_file(file, list[i].offset, list[i].bytes / 4, expected);
            run_->document.add(file_io::check_of(mismatch,
                                                 what(space, config, datasets_of(config.layout)[d].name),
                                                 path, list[i].offset, mismatch.first));
        }
    }

    /// What was read, compared where it is; a wrong word is named by its place in the file.
    void verify_arrays(MemorySpace& space, const SnapshotConfig& config, const std::vector<Segment>& list) {
        for (int a = 0; a < file_io::arrays; ++a) {
            const file_io::Mismatch mismatch =
                space.compare(arrays_.at[a], particles_ * file_io::array_words[a], content_.words(a));
            const file_io::WordAt at = place_of(config.layout, a, mismatch.count > 0 ? mismatch.first : 0);
            run_->document.add(file_io::check_of(
                mismatch, what(space, config, datasets_of(Layout::asis)[a].name), source(config.layout),
                list[static_cast<std::size_t>(at.array)].offset, at.word));
        }
    }

    std::string what(MemorySpace& space, const SnapshotConfig& config, const std::string& array) const {
        return config.text() + ", " + std::to_string(particles_) + " particles on " + space.name() + ", " +
               array;
    }

    void report(MemorySpace& space, const std::vector<SnapshotConfig>& configs,
                const std::vector<std::vector<Parts>>& parts) {
        tenken::Document& document = run_->document;
        const double bytes = static_cast<double>(particles_) * file_io::particle_bytes;
        const std::string n = std::to_string(particles_);
        if (!cold_ && cached_min_ < 1) document.path("not_cached.n" + n, 1 - cached_min_);
        if (cold_ && cold_max_ > 0) document.path("still_cached.n" + n, cold_max_);
        for (std::size_t i = 0; i < configs.size(); ++i) {
            tenken::Metric rate = metric(space, configs[i].write ? "write" : "read", configs[i]);
            tenken::Metric around =
                metric(space, configs[i].write ? "write_around" : "read_around", configs[i]);
            around.unit = "ms";
            around.direction = tenken::Direction::lower;
            for (const Parts& one : parts[i]) {
                rate.samples.push_back(bytes / (one.data + one.sync) / 1e9);
                around.samples.push_back((one.open + one.close) * 1e3);
            }
            document.add(rate, space.link_limit());
            document.add(around, tenken::Limit::unknown("no figure bounds opening and closing a file"));
        }
        // Round by round: what disturbed a round disturbed both.
        const auto compare = [&](std::size_t i, std::size_t j, const std::string& name,
                                 const std::string& without) {
            tenken::Metric ratio = metric(space, (configs[i].write ? "write_" : "read_") + name, configs[i]);
            ratio.unit = "1";
            ratio.at.erase(std::find_if(ratio.at.begin(), ratio.at.end(),
                                        [&](const std::pair<std::string, tenken::Json>& coordinate) {
                                            return coordinate.first == without;
                                        }));
            for (std::size_t r = 0; r < std::min(parts[i].size(), parts[j].size()); ++r) {
                ratio.samples.push_back((parts[j][r].data + parts[j][r].sync) /
                                        (parts[i][r].data + parts[i][r].sync));
            }
            document.add(ratio, tenken::Limit::unknown("a ratio"));
        };
        for (std::size_t i = 0; i < configs.size(); ++i) {
            for (std::size_t j = 0; j < configs.size(); ++j) {
                if (configs[i].write != configs[j].write) continue;
                const bool same_layout = configs[i].layout == configs[j].layout;
                const bool same_method = configs[i].method == configs[j].method;
                if (same_method && configs[i].layout == Layout::hyperslab && !same_layout) {
                    compare(i, j, "hyperslab_over_asis", "layout");
                }
                if (same_layout && configs[i].method == "gds" && configs[j].method == "posix") {
                    compare(i, j, "gds_over_posix", "method");
                }
            }
        }
    }

    /// The methods that noise left open, for the reader of the document.
    void tell_open(MemorySpace& space, const std::vector<SnapshotConfig>& configs,
                   const file_io::Times& times, const std::vector<file_io::Pair>& open) {
        if (open.empty()) return;
        std::ostringstream text;
        text.precision(3);
        for (const file_io::Pair& pair : open) {
            const std::vector<double> ratios = file_io::pair_ratios(times[pair.one], times[pair.other]);
            const file_io::Interval interval = file_io::median_interval(ratios);
            text << (text.tellp() > 0 ? "; " : "") << (configs[pair.one].write ? "write" : "read") << " by "
                 << configs[pair.one].method << " " << interval.median << " (" << interval.low << " to "
                 << interval.high << ") in " << ratios.size() << " pairs";
        }
        run_->document.path("layouts_open.n" + std::to_string(particles_) + "." + space.name(), text.str());
    }

    tenken::Metric metric(MemorySpace& space, const std::string& name, const SnapshotConfig& config) const {
        tenken::Metric one;
        one.name = name;
        one.subject = space.subject();
        one.unit = "GB/s";
        one.at = {{"layout", tenken::Json(name_of(config.layout))},
                  {"method", tenken::Json(config.method)},
                  {"particles", tenken::Json(particles_)}};
        return one;
    }

    std::unique_ptr<file_io::GpuMemorySpaces> gpus_;
    std::string backend_ = "host";
    std::string path_ = ".";
    std::int64_t minimum_ = 16384;
    std::int64_t maximum_ = 1048576;
    std::int64_t factor_ = 4;
    std::string asked_layouts_ = "all";
    std::string asked_methods_ = "all";
    std::string asked_directions_ = "all";
    std::uint64_t block_ = 2 << 20;
    std::int64_t threads_ = 0;
    bool synced_ = false;
    bool cold_ = false;
    double seconds_ = 5;
    double decide_seconds_ = 5;
    std::string keep_;

    std::vector<std::uint64_t> sizes_;
    std::vector<Layout> layouts_;
    std::vector<std::string> chosen_methods_;
    bool writes_ = false;
    bool reads_ = false;
    std::shared_ptr<const file_io::Hdf5> library_;
    file_io::Place place_;
    tenken::Run* run_ = nullptr;
    const file_io::RunFolder* folder_ = nullptr;
    std::uint64_t particles_ = 0;
    const file_io::Particles content_ = {3};
    Memory memory_[file_io::arrays];
    Memory packed_memory_[3];
    Memory staged_[file_io::arrays];
    Quartet arrays_;
    Quartet packed_;
    std::map<std::string, std::unique_ptr<file_io::IoBackend>> io_backends_;
    bool fault_made_ = false;
    double cached_min_ = 1;
    double cold_max_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    int code = 0;
    if (file_io::is_gds_probe(argc, argv, code)) return code;
    SnapshotIo program;
    return tenken::run_program(program, argc, argv);
}
