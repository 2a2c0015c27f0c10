// The part of the stencil that needs CUDA: slabs on GPUs and the ways between them.
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
    /// Takes the GPUs of this process: all selected ones, or, of several processes, one each, counted round.
    /// @throws as tenken::cuda::device_count() and describe(); ArgumentError
    virtual void prepare(const tenken::Arguments& arguments, const tenken::Ranks& ranks) = 0;
    /// The GPUs of this process, a part for each.
    virtual std::vector<tenken::DeviceDescription> descriptions() const = 0;
    /// @param part_bytes what the arrays of a part take together
    /// @throws Waived where this machine lacks what an exchange needs, by its name
    virtual void require(const std::string& exchange, const tenken::Ranks& ranks,
                         std::uint64_t part_bytes) = 0;
    /// GB/s of copies on GPU `which` by its place in descriptions(): what bounds a stencil.
    virtual tenken::Metric measure_copy(std::size_t which, double warmup_seconds) = 0;
    /// The most steps that a pass can do at once for this problem.
    virtual int max_temporal_block(const Problem& problem) const = 0;
    /// @param capacity elements to allocate for an array
    virtual std::unique_ptr<Part> make_part(std::size_t which, const Layout& layout, const Problem& problem,
                                            int number, std::size_t capacity, const Memory& memory) = 0;
    /// A way of exchanging by its name, of those that require() let pass.
    /// @param parts of all processes
    virtual std::unique_ptr<Exchange> make_exchange(const std::string& name, tenken::Ranks& ranks,
                                                    Transport& transport, int parts) = 0;
    /// What GPU `which` consumes.
    virtual tenken::EnergyMeter& energy(std::size_t which) = 0;
    /// What runs between the two is watched for the GPUs' health.
    virtual void begin_timed() = 0;
    virtual void end_timed() = 0;
    /// Whether a library is in use that does not survive the end of the process in order: NVSHMEM 3.8 dies of
    /// a segmentation fault in its own clean-up.
    virtual bool leave_at_once() const = 0;
    /// Writes devices, health and the CUDA part of the build into the document.
    virtual void report(tenken::Document& document) = 0;
};

/// Null in a build without CUDA.
std::unique_ptr<GpuBackend> make_gpu_backend();

}  // namespace stencil
