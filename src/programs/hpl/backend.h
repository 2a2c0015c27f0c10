// Location and factorisation of the matrix: the host, or one GPU per process.
#pragma once

#include <memory>
#include <vector>

#include "lib/base/rank_backend.h"
#include "programs/hpl/engine.h"

namespace hpl {

/// The properties of engines, determined before construction; the same for all engines of a run.
class Backend : public tenken::RankBackend {
  public:
    /// Finds the required libraries and devices. @throws ArgumentError, Waived
    virtual void prepare(const tenken::Arguments& arguments, Ranks& ranks) = 0;
    /// Memory required by an engine, in bytes.
    virtual std::uint64_t needed_bytes(const Layout& layout) const = 0;
    /// Candidates of --nb auto, and the minimum step width that is worth its overhead.
    virtual std::vector<std::int64_t> blocks_to_try() const = 0;
    virtual std::int64_t min_width() const = 0;
    virtual std::unique_ptr<Engine> make(const Layout& layout, Ranks& ranks) = 0;
    /// x of A x = b from a library in this process only, for small matrices.
    virtual std::vector<double> library_solution(const Matrix& matrix) = 0;
};

std::unique_ptr<Backend> make_host_backend();
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace hpl
