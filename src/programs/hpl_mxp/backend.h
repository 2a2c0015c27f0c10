// Factory of engines: the host, or one GPU per process.
#pragma once

#include <memory>

#include "lib/base/rank_backend.h"
#include "programs/hpl_mxp/engine.h"

namespace mxp {

class Backend : public tenken::RankBackend {
  public:
    /// @throws ArgumentError, Waived
    virtual void prepare(const tenken::Arguments& arguments, lu::Ranks& ranks, Low low) = 0;
    virtual std::int64_t tile() const = 0;
    /// Default N and NB.
    virtual std::int64_t usual_n() const = 0;
    virtual std::int64_t usual_nb() const = 0;
    virtual std::uint64_t needed_bytes(std::int64_t n, std::int64_t nb, int processes) const = 0;
    virtual std::unique_ptr<Engine> make(std::int64_t n, std::int64_t nb, lu::Ranks& ranks) = 0;
};

std::unique_ptr<Backend> make_host_backend();
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace mxp
