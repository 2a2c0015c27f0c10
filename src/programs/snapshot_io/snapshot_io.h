// The program snapshot_io: options, measurement, verification and report, each in a separate
// file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/file_io/file_program.h"
#include "lib/file_io/hdf5.h"
#include "lib/file_io/particles.h"
#include "lib/file_io/rounds.h"
#include "lib/file_io/scratch.h"
#include "programs/snapshot_io/times.h"

namespace snapshot_io {

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

/// Whether a method uses one of HDF5's drivers; the others bypass HDF5.
inline bool by_hdf5(const std::string& method) {
    return method.compare(0, 5, "hdf5_") == 0;
}

/// A configuration for writing and reading a snapshot, as compared by run_rounds().
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

class SnapshotIo : public file_io::FileProgram {
  public:
    std::string name() const override { return "snapshot_io"; }
    std::string purpose() const override;
    void options(tenken::Arguments& arguments) override;
    std::vector<tenken::FaultKind> faults() const override;
    void prepare(const tenken::Arguments& arguments) override;
    void measure(tenken::Run& run) override;

  private:
    std::string source(Layout layout) const { return folder_->file(std::string(name_of(layout)) + ".h5"); }

    // Options, checked for consistency and against the machine (options.cpp)
    /// Why a method cannot be used here; empty if it can.
    std::string why_not(MemorySpace& space, const std::string& method) const;

    // Timed part (measurement.cpp)
    void measure_on(MemorySpace& space);
    void at_size(MemorySpace& space, std::uint64_t n, const std::vector<std::string>& usable);
    void keep(const std::vector<std::unique_ptr<file_io::ScratchFile>>& sources) const;
    /// Waking a thread for less than this amount of work costs more than it gains.
    int threads_for(std::uint64_t particles) const;
    /// Blocks small enough that every thread has one, but at least a MiB.
    std::uint64_t block_for(std::uint64_t particles, int threads) const;
    /// Offsets of the datasets in an open file, and their sources or destinations in memory.
    std::vector<Segment> segments(const SnapshotFile& file, const Quartet& memory) const;
    /// Host memory for each dataset, or array, of this size.
    Quartet staging(MemorySpace& space);
    /// Clears what data pass on their way, so that none of an earlier transfer is taken for those of the
    /// next.
    void clear_ways(MemorySpace& space);
    /// The file to be read: written through HDF5, and flushed to the device before it is first read.
    void make_source(MemorySpace& space, Layout layout, file_io::ScratchFile& scratch);
    Parts write(MemorySpace& space, const SnapshotConfig& config, bool verify);
    Parts read(MemorySpace& space, const SnapshotConfig& config, bool verify);

    // Verification (verification.cpp)
    /// Written data, read back without the tested method and compared word by word.
    void verify_file(MemorySpace& space, const SnapshotConfig& config, const std::string& path,
                     const std::vector<Segment>& list);
    /// Data that was read, compared in place; a wrong word is reported by its offset in the file.
    void verify_arrays(MemorySpace& space, const SnapshotConfig& config, const std::vector<Segment>& list);
    void add(tenken::Check check, MemorySpace& space, const SnapshotConfig& config,
             const std::string& dataset);

    // Report (report.cpp)
    void report(MemorySpace& space, const std::vector<SnapshotConfig>& configs,
                const std::vector<std::vector<Parts>>& parts);
    /// The methods left undecided by noise, for the document.
    void tell_open(MemorySpace& space, const std::vector<SnapshotConfig>& configs,
                   const file_io::Times& times, const std::vector<file_io::Pair>& open);
    tenken::Metric metric(MemorySpace& space, const std::string& name, const SnapshotConfig& config) const;

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
    std::string times_file_;
    std::string other_file_;

    std::vector<std::uint64_t> sizes_;
    std::vector<Layout> layouts_;
    std::vector<std::string> chosen_methods_;
    bool writes_ = false;
    bool reads_ = false;
    std::shared_ptr<const file_io::Hdf5> library_;
    const file_io::RunFolder* folder_ = nullptr;
    std::unique_ptr<tenken::DocumentFile> times_document_;
    SnapshotTimes times_;  ///< of this process
    SnapshotTimes other_;  ///< of the other one
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

}  // namespace snapshot_io
