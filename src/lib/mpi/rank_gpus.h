// The part of mpi_p2p that needs CUDA: each rank's GPU, its buffers, and the rate of a plain peer copy
// between the same GPUs.
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
    /// Selects this rank's GPU: by its index among the ranks of the node, in rotation.
    /// @throws as tenken::cuda::device_count() and describe(); ArgumentError
    virtual void prepare(const tenken::Arguments& arguments, int local_rank) = 0;
    virtual int index() const = 0;
    virtual const tenken::DeviceDescription& description() const = 0;
    virtual std::unique_ptr<Buffer> buffer(Kind kind, std::size_t bytes) = 0;
    virtual void begin_timed() = 0;
    virtual void end_timed() = 0;
    /// What was read of this rank's GPU, or the reason why nothing was.
    virtual tenken::Optional<tenken::DeviceHealth> health(std::string& why_not) = 0;
    virtual void describe_build(tenken::Build& build) = 0;
    /// Seconds of each cudaMemcpyPeer of `bytes` from this rank's GPU to another of this node, by its PCI
    /// address; empty if it is not visible or accessible from here.
    virtual std::vector<double> peer_copy(const std::string& pci_bus_id, std::size_t bytes,
                                          long repetitions) = 0;
    /// Reports how this rank's GPU is connected to another of this node, if that is visible to it.
    virtual void report_link(tenken::Document& document, const std::string& pci_bus_id) = 0;
};

/// Null in a build without CUDA.
std::unique_ptr<RankGpus> make_rank_gpus();

}  // namespace mpi_p2p
