// The program data_loading: options, measurement and report, each in a separate file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/file_io/file_program.h"
#include "lib/file_io/hdf5.h"
#include "lib/file_io/rounds.h"
#include "lib/file_io/scratch.h"
#include "programs/data_loading/consumer.h"
#include "programs/data_loading/samples.h"

namespace data_loading {

using file_io::IoConfig;
using file_io::MemorySpace;

/// A method of reading, and the number of batches read ahead.
struct Trial {
    IoConfig config;
    std::size_t ahead = 0;
    std::vector<double> waits;      ///< fraction of each timed repetition in which the consumer waited, %
    std::uint64_t wrong = 0;        ///< samples with a wrong checksum, over all repetitions
    std::uint64_t misread = 0;      ///< samples not read exactly once in an epoch
    tenken::Json first_wrong = {};  ///< position of the first of these
    tenken::Json first_misread = {};
};

class DataLoading : public file_io::FileProgram {
  public:
    std::string name() const override { return "data_loading"; }
    std::string purpose() const override;
    std::int64_t default_repetitions() const override { return 10; }
    void options(tenken::Arguments& arguments) override;
    std::vector<tenken::FaultKind> faults() const override;
    void prepare(const tenken::Arguments& arguments) override;
    void measure(tenken::Run& run) override;

  private:
    // Options, and the available methods (options.cpp)
    void read_lists(const tenken::Arguments& arguments);
    std::vector<IoConfig> ways(MemorySpace& space);
    std::size_t batch_of(const Kind& kind) const {
        return batch_ > 0 ? static_cast<std::size_t>(batch_) : kind.batch;
    }
    std::size_t samples_of(const Kind& kind) const {
        return batch_of(kind) * static_cast<std::size_t>(batches_);
    }
    std::size_t largest_ring() const;
    std::uint64_t stride_of(const Kind& kind) const { return (kind.largest() + 4095) / 4096 * 4096; }

    // Timed part (data_loading.cpp)
    void measure_on(MemorySpace& space);
    void measure_kind(MemorySpace& space, const Kind& kind, const std::vector<IoConfig>& list);
    void write_samples(const Kind& kind, const std::vector<IoConfig>& list);
    void prepare_cache(const Kind& kind, const IoConfig& config);
    /// The number of passes for a step of the requested duration.
    void calibrate(MemorySpace& space, const Kind& kind, Consumer& consumer);
    /// All epochs by one method. @return seconds
    double load(MemorySpace& space, const Kind& kind, Consumer& consumer, Trial& trial, long round);
    std::string path_of(std::size_t sample, const IoConfig& config) const;
    /// Where the file of a sample is wrong, or that the file is correct but was read incorrectly.
    tenken::Json look_at(const Kind& kind, std::size_t sample, const IoConfig& config,
                         const std::string& when) const;

    // Report (report.cpp)
    void report(MemorySpace& space, const Kind& kind, const std::vector<Trial>& trials,
                const file_io::Times& times);

    std::string asked_kinds_ = "speech,deepcam";
    std::string asked_ways_ = "few";
    std::string asked_prefetch_ = "0,2";
    std::int64_t batch_ = 0;
    std::int64_t batches_ = 8;
    std::int64_t epochs_ = 2;
    double step_ms_ = 20;
    std::int64_t threads_ = 0;
    bool in_order_ = false;
    bool cold_ = false;
    double seconds_ = 10;

    std::vector<Kind> kinds_;
    std::vector<std::size_t> ahead_;
    std::vector<IoConfig> given_;
    std::shared_ptr<const file_io::Hdf5> library_;
    std::string why_no_hdf5_;
    const file_io::RunFolder* folder_ = nullptr;
    std::vector<std::uint64_t> expected_;  ///< checksums
    std::vector<std::uint64_t> offsets_;   ///< offset of a sample's words in its HDF5 file
    std::vector<file_io::Memory> ring_;
    bool fault_made_ = false;
    double highest_cold_ = 0;
    double lowest_cached_ = 1;
};

}  // namespace data_loading
