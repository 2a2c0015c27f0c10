// Where a rank's part of a system is solved: the common part of the back ends of all solvers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/energy.h"
#include "lib/base/host.h"
#include "lib/base/ranks.h"

namespace tenken {

/// The host, or a GPU for each rank.
class RankBackend {
  public:
    virtual ~RankBackend() = default;
    /// The value of --backend.
    virtual std::string name() const = 0;
    virtual void options(Arguments& arguments) { (void)arguments; }
    /// The subject of this process's metrics if it is the only one.
    virtual Subject subject() const = 0;
    /// Memory that this rank may use, in bytes.
    virtual std::uint64_t free_bytes() const = 0;
    /// Monitors health while work() runs.
    virtual void watch(const std::function<void()>& work) { work(); }
    /// Null if there is no sensor.
    virtual Meter* energy() { return nullptr; }
    /// Devices and health of all ranks, into the document of the rank that prints; every rank calls it.
    virtual void report(Document& document, Ranks& ranks) = 0;
};

/// The host, whose memory the ranks of a node share equally.
/// @tparam Base a solver's own class of back ends, derived from RankBackend
template <typename Base>
class HostRankBackend : public Base {
  public:
    std::string name() const override { return "host"; }
    Subject subject() const override { return Subject::host(); }
    std::uint64_t free_bytes() const override { return available_memory_bytes() / local_ranks_; }
    Meter* energy() override { return meter_.there() ? &meter_ : nullptr; }
    void report(Document&, Ranks&) override {}

  protected:
    void share_with(const Ranks& ranks) { local_ranks_ = static_cast<std::uint64_t>(ranks.local_size()); }
    std::uint64_t local_ranks() const { return local_ranks_; }

  private:
    std::uint64_t local_ranks_ = 1;
    HostEnergyMeter meter_;
};

}  // namespace tenken
