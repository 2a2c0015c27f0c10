// The part of mpi_p2p that needs CUDA: each rank's GPU, its buffers, and what the same pair of GPUs does by a
// plain peer copy.
#pragma once

#include <memory>
#include <string>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/optional.h"
#include "lib/mpi/buffer.h"

namespace mpi_p2p {

class RankGpus {
  public:
    virtual ~RankGpus() = default;
    virtual void options(tenken::Arguments& arguments) = 0;
    /// Takes this rank's GPU: the one at its place among the ranks of the node, counted round.
    /// @throws as tenken::cuda::device_count() and describe(); ArgumentError
    virtual void prepare(const tenken::Arguments& arguments, int local_rank) = 0;
    virtual int index() const = 0;
    virtual const tenken::DeviceDescription& description() const = 0;
    virtual std::unique_ptr<Buffer> buffer(Kind kind, std::size_t bytes) = 0;
    virtual void begin_timed() = 0;
    virtual void end_timed() = 0;
    /// What was read of this rank's GPU, as a JSON object, and why not when it is empty.
    virtual std::string health(std::string& why_not) = 0;
    virtual void describe_build(tenken::Build& build) = 0;
    /// GB/s of cudaMemcpyPeer from this rank's GPU to another of this node, by its PCI address; empty where
    /// it cannot be seen from here or reached.
    virtual std::vector<double> peer_copy(const std::string& pci_bus_id, std::size_t bytes,
                                          long repetitions) = 0;
    /// The limit between this rank's GPU and another of this node.
    virtual tenken::Limit limit(const std::string& pci_bus_id, int directions) = 0;
};

/// Null in a build without CUDA.
std::unique_ptr<RankGpus> make_rank_gpus();

}  // namespace mpi_p2p
