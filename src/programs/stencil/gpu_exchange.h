// Common part of the exchanges between GPUs, and their factories. Each is one file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/ranks.h"
#include "lib/cuda/timing.h"
#include "lib/nccl/library.h"
#include "programs/stencil/exchange.h"
#include "programs/stencil/gpu_part.h"

namespace stencil {

inline GpuPart& gpu_part(Parts& parts, std::size_t place) {
    return static_cast<GpuPart&>(*parts[place]);
}

/// Bytes of a range of planes of a part.
inline std::size_t bytes_of(const Part& part, const Range& range) {
    return part.plane_bytes() * static_cast<std::size_t>(range.planes());
}

/// Within one process each part copies its halo from its neighbour's array, in its own boundary queue, after
/// the neighbour's queue has reached that point. Ordering is by events only; the host never waits.
class Pull : public Exchange {
  public:
    void connect(Parts& parts, const Links& links) override;
    void start(const Links& links, int array) override;
    void finish(const Links& links, int array) override;

  protected:
    /// Enqueues the copy in the receiver's boundary queue; the receiver's GPU is current.
    virtual void move(GpuPart& receiver, void* to, GpuPart& sender, const void* from, std::size_t bytes) = 0;

  private:
    GpuPart& neighbour(const Link& link) { return *by_number_[static_cast<std::size_t>(link.neighbour)]; }

    Parts* parts_ = nullptr;
    std::vector<GpuPart*> by_number_;
    std::vector<std::unique_ptr<tenken::cuda::Event>> ready_;   ///< of each part
    std::vector<std::unique_ptr<tenken::cuda::Event>> pulled_;  ///< of each part, below and above
};

std::unique_ptr<Exchange> make_staged_exchange(Transport& transport);
/// @param between the exchange between nodes
std::unique_ptr<Exchange> make_peer_exchange();
std::unique_ptr<Exchange> make_ipc_exchange(tenken::Ranks& ranks, Transport& transport);
std::unique_ptr<Exchange> make_managed_exchange();
std::unique_ptr<Exchange> make_nccl_exchange(const nccl::Library& library, tenken::Ranks& ranks, int parts);
/// @param heap_bytes total size of all arrays of a part
std::unique_ptr<Exchange> make_nvshmem_exchange(tenken::Ranks& ranks, std::size_t heap_bytes);
bool nvshmem_has_begun();
/// Why NVSHMEM cannot be used here; empty if it can.
std::string why_no_nvshmem();

}  // namespace stencil
