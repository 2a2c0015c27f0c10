// The lanes of a factorisation on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/clock.h"
#include "lib/lu/factor.h"

namespace lu {

/// A Stepper that executes each call immediately: marks have no effect, stamps are of the host's clock.
/// @tparam Engine derived from Stepper
template <typename Engine>
class HostLanes : public Engine {
  public:
    void mark(Lane, int) override {}
    void wait(Lane, int) override {}
    int stamp(Lane) override {
        stamps_.push_back(tenken::now_seconds());
        return static_cast<int>(stamps_.size()) - 1;
    }
    double seconds_between(int earlier, int later) override {
        return stamps_[static_cast<std::size_t>(later)] - stamps_[static_cast<std::size_t>(earlier)];
    }
    void forget_stamps() override { stamps_.clear(); }
    std::int64_t finish() override { return singular_; }

  protected:
    std::int64_t singular_ = -1;  ///< the first column without a pivot

  private:
    std::vector<double> stamps_;
};

}  // namespace lu
