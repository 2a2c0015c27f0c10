// The common part of the back ends of the dense solvers on GPUs: a GPU for each rank, and the communicators.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>

#include "lib/cuda/rank_gpu.h"
#include "lib/lu/communicator.h"

namespace lu {

/// @tparam Base a solver's own class of back ends, derived from tenken::RankBackend
template <typename Base>
class GpuBackend : public Base {
  public:
    std::string name() const override { return "cuda"; }
    void options(tenken::Arguments& arguments) override {
        arguments.heading("options of --backend cuda");
        gpu_.options(arguments,
                     "which GPUs, by CUDA index: all, or a list such as 0,2; each rank of a node takes one");
        own_options(arguments);
        arguments.choice(
            "communicator", communicator_, {"auto", "nccl", "mpi", "host"},
            "how panels are sent to other GPUs: NCCL, MPI with device pointers, or through the host");
    }
    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu().index()); }
    std::uint64_t free_bytes() const override { return gpu().description().memory_free_bytes; }
    void watch(const std::function<void()>& work) override { gpu_.watch(work); }
    tenken::EnergyMeter* energy() override { return &gpu_.gpu().energy(); }
    void report(tenken::Document& document, tenken::Ranks& ranks) override { gpu_.report(document, ranks); }

  protected:
    /// Options of the solver, between --gpus and --communicator.
    virtual void own_options(tenken::Arguments& arguments) = 0;
    /// @throws ArgumentError, Waived
    void select(const tenken::Arguments& arguments, Ranks& ranks) { gpu_.prepare(arguments, ranks); }
    const tenken::cuda::Gpu& gpu() const { return gpu_.gpu(); }

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
    tenken::cuda::RankGpu gpu_;
    std::string communicator_ = "auto";
    std::map<std::array<int, 3>, std::unique_ptr<Communicator>> links_;
};

}  // namespace lu
