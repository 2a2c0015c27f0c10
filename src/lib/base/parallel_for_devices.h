// Doing the same on several places (GPUs): one after the other, or all at once.
#pragma once

#include <functional>

namespace tenken {

class Barrier;

/// One of the workers of parallel_for_devices().
class DeviceWorker {
  public:
    DeviceWorker(int index, Barrier* barrier) : index_(index), barrier_(barrier) {}
    int index() const { return index_; }
    /// Waits until all members that work at once are here, so that they go on together. Returns at once where
    /// they work one after the other.
    /// @throws std::runtime_error when another member has failed and will never come
    void synchronize();

  private:
    int index_;
    Barrier* barrier_;  ///< null when one after the other
};

/// Calls work(member) for members 0 .. count - 1, one after the other in this thread, or at once, each in a
/// thread of its own that may run on every CPU of the process.
/// @throws what the first member that failed threw, after all have ended
void parallel_for_devices(int count, bool at_once, const std::function<void(DeviceWorker&)>& work);

}  // namespace tenken
