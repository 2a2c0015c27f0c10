// The same work on several GPUs: in turn, or at the same time.
#pragma once

#include <functional>

namespace tenken {

class Barrier;

/// One of the workers of parallel_for_devices().
class DeviceWorker {
  public:
    DeviceWorker(int index, Barrier* barrier) : index_(index), barrier_(barrier) {}
    int index() const { return index_; }
    /// Waits for all concurrent members, so that they continue together. Returns immediately if
    /// they run in turn.
    /// @throws std::runtime_error if another member has failed and will not arrive
    void synchronize();

  private:
    int index_;
    Barrier* barrier_;  ///< null if they run in turn
};

/// Calls work(member) for members 0 .. count - 1, in turn in this thread, or concurrently, each in a
/// separate thread that may run on every CPU of the process.
/// @throws the exception of the first member that failed, after all have ended
void parallel_for_devices(int count, bool at_once, const std::function<void(DeviceWorker&)>& work);

}  // namespace tenken
