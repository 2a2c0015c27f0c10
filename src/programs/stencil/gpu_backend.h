// The part of the stencil that needs CUDA: slabs on GPUs and the exchanges between them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/energy.h"
#include "lib/base/ranks.h"
#include "programs/stencil/exchange.h"

namespace stencil {

class GpuBackend {
  public:
    virtual ~GpuBackend() = default;
    virtual void options(tenken::Arguments& arguments) = 0;
    /// Selects the GPUs of this process: all selected ones, or, with several processes, one each, in
    /// rotation.
    /// @throws as tenken::cuda::Gpus::prepare()
    virtual void prepare(const tenken::Arguments& arguments, tenken::Ranks& ranks) = 0;
    /// The GPUs of this process, with one part each.
    virtual std::vector<tenken::DeviceDescription> descriptions() const = 0;
    /// @param part_bytes total size of the arrays of a part
    /// @throws Waived if this machine lacks a requirement of an exchange, by its name
    virtual void require(const std::string& exchange, std::uint64_t part_bytes) = 0;
    /// Copies on GPU `which` by its index in descriptions(): the limit of a stencil follows from them.
    virtual tenken::Metric measure_copy(std::size_t which, double warmup_seconds) = 0;
    /// Maximum number of steps per pass for this problem.
    virtual int max_temporal_block(const Problem& problem) const = 0;
    /// @param capacity elements to allocate for an array
    virtual std::unique_ptr<Part> make_part(std::size_t which, const Layout& layout, const Problem& problem,
                                            int number, std::size_t capacity, const Memory& memory) = 0;
    /// An exchange by its name, among those accepted by require().
    /// @param parts of all processes
    virtual std::unique_ptr<Exchange> make_exchange(const std::string& name, tenken::Ranks& ranks,
                                                    Transport& transport, int parts) = 0;
    /// The energy of GPU `which`.
    virtual tenken::EnergyMeter& energy(std::size_t which) = 0;
    /// The GPUs' health is monitored between the two calls.
    virtual void begin_timed() = 0;
    virtual void end_timed() = 0;
    /// Whether a library is in use that crashes at a normal end of the process: NVSHMEM 3.8 has
    /// a segmentation fault in its own clean-up.
    virtual bool leave_at_once() const = 0;
    /// Writes devices, health and the CUDA part of the build into the document. Collective.
    virtual void report(tenken::Document& document, tenken::Ranks& ranks) = 0;
};

/// Null in a build without CUDA.
std::unique_ptr<GpuBackend> make_gpu_backend();

}  // namespace stencil
