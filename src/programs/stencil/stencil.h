// The program stencil: options, measurement, verification and report, each in a separate file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/launched.h"
#include "lib/base/program.h"
#include "programs/stencil/gpu_backend.h"
#include "programs/stencil/solver.h"

namespace stencil {

class Stencil : public tenken::Program {
  public:
    explicit Stencil(tenken::Ranks& ranks) : ranks_(ranks), gpu_(make_gpu_backend()) {}
    std::string name() const override { return "stencil"; }
    std::string purpose() const override;
    void options(tenken::Arguments& arguments) override;
    std::vector<tenken::FaultKind> faults() const override;
    void prepare(const tenken::Arguments& arguments) override;
    void measure(tenken::Run& run) override;
    /// Whether the process ends without clean-up; everything has then been written.
    bool leave_at_once() const { return gpu_ && gpu_->leave_at_once(); }

  private:
    bool on_host() const { return backend_ == "host"; }
    bool exchanging() const { return exchanges_.front() != "none"; }
    void begin_timed() {
        if (gpu_ && !on_host()) gpu_->begin_timed();
    }
    void end_timed() {
        if (gpu_ && !on_host()) gpu_->end_timed();
    }
    tenken::Subject all() const { return tenken::Subject::ranks(plan_.parts); }

    // Options, checked for consistency and against the machine (options.cpp)
    void parse_exchanges(const tenken::Arguments& arguments);
    /// Rejects what this machine or this way of starting the program does not support, before any allocation.
    void require_exchange(const std::string& name);
    void require_memory(const tenken::Arguments& arguments) const;

    // Timed part (measurement.cpp)
    /// Bytes of one array of the thickest slab.
    std::uint64_t part_bytes() const;
    /// @param capacity elements of an array: those of the thickest slab, so that all parts have the
    /// same
    std::unique_ptr<Part> make_part(int local, const Layout& layout, const Problem& problem, int number,
                                    std::size_t capacity, const Memory& memory = {});
    Parts make_parts(const Plan& plan, const Problem& problem, const Memory& memory);
    /// Each slab in turn without neighbours, while no other one computes.
    void measure_alone();
    /// @return the median rate in Gcell/s
    double measure_one(int local, int temporal_block);
    /// For one slab alone, --steps steps at a time.
    void measure_energy(int local, const Plan& plan, Solver& solver, const tenken::Metric& made);
    void measure_exchange(const std::string& name);
    void warm_up(const std::string& name, const Plan& plan, Solver& solver, bool measured = false);
    /// The fastest choice on one GPU alone need not be the fastest when all compute: a block takes as long as
    /// the slowest GPU, and kernels near the power cap vary over time. So each number of steps per pass is
    /// tried under the conditions of the measurement.
    void choose_temporal_block(const std::string& name);
    std::unique_ptr<Exchange> make_exchange(const std::string& name);
    void time_blocks(const std::string& name, const Plan& plan, Parts& parts, Solver& solver);
    void time_total(const std::string& name, const Plan&, Solver& solver);
    void time_phases(const std::string& name, const Plan& plan, Solver& solver);

    // Verification (verification.cpp)
    /// Only here if nothing is exchanged: only this process has the result.
    void compare_alone(const Plan& plan, const Parts& parts, Solver& solver);
    /// Large grids have cells that no small one has, so the last pass of each kind is compared there.
    void compare_passes(const std::string& name, const Plan& plan, const Parts& parts, Solver& solver);
    /// A small grid with the same decomposition, compared with the formula: three blocks, the last of them a
    /// single step.
    void verify(const std::string& name);
    template <typename T>
    void verify_as(const std::string& name, const Plan& plan);
    /// The worst of all processes counts.
    void add_check(const tenken::Check& check);

    // Report (report.cpp)
    tenken::Metric metric_of(const std::string& name, const tenken::Subject& subject) const;
    /// @param ranks those that call it together: one alone after an error, which the others may not have seen
    void report(tenken::Ranks& ranks);

    tenken::Ranks& ranks_;
    std::unique_ptr<GpuBackend> gpu_;
    tenken::HostEnergyMeter host_meter_;
    std::unique_ptr<Transport> transport_;

    std::string backend_ = "host";
    std::string exchanges_text_ = "host";
    std::int64_t points_ = 27;
    std::string precision_ = "double";
    std::int64_t nx_ = 256;
    std::int64_t ny_ = 256;
    std::int64_t nz_ = 256;
    std::string scaling_ = "weak";
    std::int64_t bt_ = 4;
    std::int64_t steps_ = 128;
    double energy_seconds_ = 0;
    std::int64_t temporal_block_ = 0;
    std::int64_t phase_blocks_ = 20;
    std::int64_t parts_ = 1;
    std::int64_t asked_ranks_ = 0;
    std::int64_t asked_nodes_ = 0;
    double patience_seconds_ = 120;

    std::vector<std::string> exchanges_;
    Problem problem_;
    Plan plan_;
    std::vector<int> passes_;  ///< requested steps per pass for which there are kernels
    int local_parts_ = 1;
    std::vector<int> owners_;
    tenken::Run* run_ = nullptr;
};

}  // namespace stencil
