// The program storage_map: options, measurement and report, each in a separate file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/unfinished.h"
#include "lib/file_io/check_file.h"
#include "lib/file_io/file_program.h"
#include "lib/file_io/rounds.h"
#include "lib/file_io/scratch.h"
#include "lib/file_io/storage_map.h"

namespace storage_map {

using file_io::File;
using file_io::IoConfig;
using file_io::MemorySpace;
using file_io::Segment;

/// Minimum gain of another configuration at the next size for the map to change to it.
constexpr double tie = 0.02;

typedef std::vector<double> Seconds;

/// The state of one candidate at one size.
struct Trial {
    IoConfig config;
    std::unique_ptr<file_io::IoBackend> io_backend;
    std::unique_ptr<File> file;
};

/// Knowledge of a situation from the previous sizes.
struct Known {
    std::map<std::string, int> behind;  ///< by name of a candidate: number of consecutive sizes
    std::string preferred;              ///< the candidate chosen at the previous size
};

class StorageMapProgram : public file_io::FileProgram {
  public:
    std::string name() const override { return "storage_map"; }
    std::string purpose() const override;
    void options(tenken::Arguments& arguments) override;
    std::vector<tenken::FaultKind> faults() const override;
    void prepare(const tenken::Arguments& arguments) override;
    void measure(tenken::Run& run) override;

  private:
    bool writes_wrong_map() const { return injected_fault() == "slowest-map"; }

    // Options, and the available configurations (options.cpp)
    std::vector<IoConfig> candidates_for(MemorySpace& space);

    // Timed part (measurement.cpp)
    void measure_on(MemorySpace& space);
    /// The candidates that differ at this size and are not known to be far behind.
    static std::vector<IoConfig> different(const std::vector<IoConfig>& candidates, std::uint64_t bytes,
                                           const std::map<std::string, int>& counts);
    void at_size(MemorySpace& space, const std::string& situation, std::uint64_t bytes,
                 const std::vector<IoConfig>& candidates);
    void make_file(MemorySpace& space, const std::string& path, std::uint64_t bytes);
    /// A new file each time, as for a program that writes results: new pages, new blocks on the device.
    double write_once(MemorySpace& space, const std::string& situation, Trial& trial,
                      const file_io::ScratchFile& scratch, std::uint64_t bytes, bool verify);
    double read_once(MemorySpace& space, const std::string& situation, Trial& trial, std::uint64_t bytes,
                     bool verify);
    /// Whether page-locked buffers and several threads transfer a cached file to the GPU as fast as the
    /// slower of the link and those threads by themselves.
    void against_link(MemorySpace& space);

    // Verification, results, and the map (report.cpp)
    /// One line of the verification for each size and situation: its configurations together.
    void add_check(MemorySpace& space, const std::string& situation, const IoConfig& config,
                   std::uint64_t bytes, const std::string& path, const file_io::Mismatch& mismatch);
    void note_cache(const std::string& situation, std::uint64_t bytes);
    tenken::Metric metric(MemorySpace& space, const std::string& name, std::uint64_t bytes) const;
    void evaluate(MemorySpace& space, const std::string& situation, std::uint64_t bytes,
                  const std::vector<IoConfig>& tried, const std::vector<IoConfig>& candidates,
                  const file_io::Times& seconds, const file_io::Finalists& finalists);
    /// The result of the choice by the map, compared with the others.
    void tell(MemorySpace& space, const std::string& situation, std::uint64_t bytes,
              const std::vector<IoConfig>& configs, std::size_t chosen, const file_io::Times& seconds,
              const file_io::Judgement& judgement);
    static std::string text_of(const file_io::Judgement& judgement, const std::vector<IoConfig>& configs);

    std::uint64_t minimum_ = 4096;
    std::uint64_t maximum_ = std::uint64_t{64} << 20;
    std::int64_t factor_ = 4;
    std::string asked_situations_ = "all";
    std::string asked_candidates_ = "all";
    std::int64_t threads_ = 0;
    double seconds_ = 1;
    double decide_seconds_ = 5;
    std::string map_file_;
    std::string use_map_;

    std::vector<std::uint64_t> sizes_;
    std::vector<std::string> chosen_situations_;
    std::vector<IoConfig> given_;
    std::unique_ptr<tenken::DocumentFile> map_document_;
    file_io::StorageMap used_map_;
    file_io::StorageMap map_;
    file_io::StorageMap wrong_map_;
    file_io::Memory memory_;
    const file_io::Words values_ = {7, file_io::Words::floats};
    std::map<std::string, Known> known_;  ///< by situation
    double always_cufile_ =
        0;  ///< median seconds of the first configuration of cuFile at this size; 0: there is none
    bool fault_made_ = false;
    double lowest_cached_ = 1;
    double highest_cold_ = 0;
};

}  // namespace storage_map
