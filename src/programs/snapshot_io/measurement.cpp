// The timed part of snapshot_io: snapshots by size, layout, method and direction, in rounds.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/base/clock.h"
#include "lib/file_io/check_file.h"
#include "lib/file_io/kvikio.h"
#include "programs/snapshot_io/snapshot_io.h"

namespace snapshot_io {

namespace {

Driver driver_of(const std::string& method) {
    return method == "hdf5_direct" ? Driver::direct : method == "hdf5_gds" ? Driver::gds : Driver::sec2;
}

/// Minimum ratio of the hyperslab layout's rate to the plain layout's, as in metrics.yaml.
constexpr double layout_bound = 0.9;
/// From this many bytes on a written snapshot is flushed before the next configuration, a thread is woken,
/// and a block is cut.
constexpr std::uint64_t worthwhile = std::uint64_t{1} << 20;

/// Large enough for array and dataset of this number in either layout.
unsigned staged_words(int a) {
    return std::max({file_io::array_words[a], datasets_of(Layout::asis)[a].words(),
                     datasets_of(Layout::hyperslab)[a].words()});
}

}  // namespace

void SnapshotIo::measure(tenken::Run& run) {
    begin(run);
    tenken::Document& document = run.document;
    document.build.libraries.push_back({"HDF5", library_->version()});
    document.path("hdf5_library", library_->file_name());
    document.path("hdf5_multi",
                  library_->has_multi() ? "H5Dwrite_multi and H5Dread_multi" : "one dataset after the other");
    document.path(
        "timed",
        "the transfer of the four datasets, packing included; creating, opening and closing the file are "
        "reported separately in seconds");
    if (file_io::Kvikio::here().library) document.path("kvikio", file_io::Kvikio::here().library->way());
    const int threads = static_cast<int>(threads_);
    if (!other_file_.empty()) document.path("other", other_.about());
    on_each_space(threads, threads, [&](MemorySpace& space) { measure_on(space); });
    end();
    if (times_document_ && document.status() == tenken::Status::ok) {
        const char* const forced = std::getenv("CUFILE_FORCE_COMPAT_MODE");
        times_document_->write(times_.text(std::string("a process with CUFILE_FORCE_COMPAT_MODE ") +
                                           (forced != nullptr ? forced : "unset")));
    }
    times_document_.reset();
}

void SnapshotIo::measure_on(MemorySpace& space) {
    std::vector<std::string> usable;
    for (const std::string& method : chosen_methods_) {
        const std::string why = why_not(space, method);
        if (why.empty()) {
            usable.push_back(method);
            continue;
        }
        run_->document.path("left_out." + method, why);
        if (asked_methods_ == "all") continue;
        // Requested by name, so a run without it would not be the requested one.
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

void SnapshotIo::at_size(MemorySpace& space, std::uint64_t n, const std::vector<std::string>& usable) {
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
            // The plain layout needs no selection.
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
    rounds.keep = 0;  // all of them are required, however slow
    rounds.seed = static_cast<std::uint32_t>(n);
    rounds.groups = groups;  // the layouts of a method next to each other
    cached_min_ = 1;
    cold_max_ = 0;
    space.begin_timed();
    const file_io::Once once = [&](std::size_t i, long round) {
        const Parts one =
            configs[i].write ? write(space, configs[i], round == 0) : read(space, configs[i], round == 0);
        // The cost of pending device writes must not fall on the next configuration.
        if (configs[i].write && n * file_io::particle_bytes >= worthwhile) folder.settle();
        if (round > 0) parts[i].push_back(one);
        return one.data + one.sync;
    };
    file_io::Times times = file_io::run_rounds(configs.size(), rounds, once);
    file_io::Deciding limit;
    limit.seconds = decide_seconds_;
    limit.seed = rounds.seed + 1;
    const std::vector<file_io::Pair> open = file_io::decide_pairs(times, pairs, layout_bound, limit, once);
    space.end_timed();
    io_backends_.clear();
    report(space, configs, parts);
    tell_open(space, configs, times, open);
    if (!keep_.empty() && n == sizes_.back() && run_->document.status() == tenken::Status::ok) keep(sources);
}

void SnapshotIo::keep(const std::vector<std::unique_ptr<file_io::ScratchFile>>& sources) const {
    const std::string name = place_.folder + "/" + keep_;
    if (std::rename(sources.back()->path().c_str(), name.c_str()) != 0) {
        throw file_io::FileError("cannot keep " + name + ": " + std::strerror(errno));
    }
}

int SnapshotIo::threads_for(std::uint64_t particles) const {
    const std::uint64_t useful = particles * file_io::particle_bytes / worthwhile;
    return static_cast<int>(std::min<std::uint64_t>(threads_, std::max<std::uint64_t>(1, useful)));
}

std::uint64_t SnapshotIo::block_for(std::uint64_t particles, int threads) const {
    const std::uint64_t bytes = particles * file_io::particle_bytes;
    std::uint64_t block = block_;
    while (bytes / block < static_cast<std::uint64_t>(threads) && block >= 2 * worthwhile &&
           block % 8192 == 0) {
        block /= 2;
    }
    return block;
}

std::vector<Segment> SnapshotIo::segments(const SnapshotFile& file, const Quartet& memory) const {
    std::vector<Segment> list;
    for (int d = 0; d < file_io::datasets; ++d) list.push_back({file.offset(d), file.bytes(d), memory.at[d]});
    return list;
}

Quartet SnapshotIo::staging(MemorySpace& space) {
    Quartet quartet;
    for (int a = 0; a < file_io::arrays; ++a) {
        if (!staged_[a]) staged_[a] = space.staging(sizes_.back() * staged_words(a) * 4);
        quartet.at[a] = staged_[a].get();
    }
    return quartet;
}

void SnapshotIo::clear_ways(MemorySpace& space) {
    for (int d = 0; d < 3; ++d) {
        space.clear(packed_.at[d], particles_ * datasets_of(Layout::hyperslab)[d].words() * 4);
    }
    for (int a = 0; a < file_io::arrays; ++a) {
        if (staged_[a]) space.clear(staged_[a].get(), particles_ * staged_words(a) * 4);
    }
}

void SnapshotIo::make_source(MemorySpace& space, Layout layout, file_io::ScratchFile& scratch) {
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
        file_io::flip_bit(plain, list[0].offset + list[0].bytes - 1);
    }
    fault_made_ = true;
    if (injected_fault() == "cut-file" &&
        ftruncate(plain.descriptor(), static_cast<off_t>(list[3].offset + 4096)) != 0) {
        throw file_io::FileError("cannot cut " + scratch.path());
    }
    scratch.finish();
}

Parts SnapshotIo::write(MemorySpace& space, const SnapshotConfig& config, bool verify) {
    file_io::ScratchFile scratch(folder_->file("new.h5"));
    const bool select = config.method == "hdf5_select";
    Quartet staged = arrays_;
    if (by_hdf5(config.method) && config.method != "hdf5_gds" && !space.is_host()) staged = staging(space);
    const bool packing = config.layout == Layout::hyperslab && !select;
    if (verify) clear_ways(space);
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
            // The kernel packs into page-locked memory: of the datasets only the ids remain to be copied.
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
    scratch.finish();  // only a complete snapshot has this name
    if (verify) verify_file(space, config, scratch.path(), list);
    return parts;
}

Parts SnapshotIo::read(MemorySpace& space, const SnapshotConfig& config, bool verify) {
    {
        File file(source(config.layout), File::Mode::read, false);
        if (cold_) {
            cold_max_ = std::max(cold_max_, file.drop_cache());
        } else {
            cached_min_ = std::min(cached_min_, file.warm());
        }
    }
    const bool select = config.method == "hdf5_select";
    Quartet staged = arrays_;
    if (by_hdf5(config.method) && config.method != "hdf5_gds" && !space.is_host()) staged = staging(space);
    if (verify) {
        for (int a = 0; a < file_io::arrays; ++a) {
            space.clear(arrays_.at[a], particles_ * file_io::array_words[a] * 4);
        }
        clear_ways(space);
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

}  // namespace snapshot_io
