// The common part of the back ends of the dense solvers on GPUs: a GPU for each rank, and the communicators.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "lib/cuda/gpus.h"
#include "lib/lu/communicator.h"

namespace lu {

/// @tparam Base a solver's own class of back ends, derived from tenken::RankBackend
template <typename Base>
class GpuBackend : public Base {
  public:
    std::string name() const override { return "cuda"; }
    void options(tenken::Arguments& arguments) override {
        arguments.heading("options of --backend cuda");
        gpus_.options_of_ranks(arguments);
        own_options(arguments);
        arguments.choice(
            "communicator", communicator_, {"auto", "nccl", "mpi", "host"},
            "how panels are sent to other GPUs: NCCL, MPI with device pointers, or through the host");
    }
    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu().index()); }
    std::uint64_t free_bytes() const override { return gpu().description().memory_free_bytes; }
    void watch(const std::function<void()>& work) override {
        const tenken::cuda::TimedPart watched(*gpus_.list().front());
        work();
    }
    tenken::EnergyMeter* energy() override { return &gpus_.list().front()->energy(); }
    void report(tenken::Document& document, tenken::Ranks& ranks) override { gpus_.report(document, ranks); }

  protected:
    /// Options of the solver, between --gpus and --communicator.
    virtual void own_options(tenken::Arguments& arguments) = 0;
    /// @throws ArgumentError, Waived
    void select(const tenken::Arguments& arguments, Ranks& ranks) { gpus_.prepare(arguments, ranks); }
    const tenken::cuda::Gpu& gpu() const { return *gpus_.list().front(); }

    /// Created once per grid, by all ranks together. @param p, q the grid, which already exists
    /// @return null for a single rank
    Communicator* communicator(Ranks& ranks, int p, int q) {
        if (ranks.size() == 1) return nullptr;
        std::unique_ptr<Communicator>& link = links_[{{p, q, ranks.at(0, q - 1)}}];
        const CommunicatorKind kind = communicator_ == "nccl"   ? CommunicatorKind::nccl
                                      : communicator_ == "mpi"  ? CommunicatorKind::mpi
                                      : communicator_ == "host" ? CommunicatorKind::host
                                                                : CommunicatorKind::automatic;
        if (!link) link = make_communicator(kind, ranks, p, q);
        return link.get();
    }

  private:
    tenken::cuda::Gpus gpus_;  ///< that of this rank alone
    std::string communicator_ = "auto";
    std::map<std::array<int, 3>, std::unique_ptr<Communicator>> links_;
};

}  // namespace lu
