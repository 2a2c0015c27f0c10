// Locks that keep measurements on one machine from running at the same time.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "lib/base/json.h"

namespace tenken {

/// Thrown if another measurement held the host or a GPU during the whole waiting time.
class Shared : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// The locks of one measurement: on the host and on each GPU. A lock is a file locked by flock(2), in a
/// folder writable by all users, so that it is released when its process ends for any reason. Measurements
/// with the same token (the ranks of a job, and the script that started them) share their locks; all others
/// wait, then give up. tenken/reframe/locks.py implements the same protocol for third-party programs.
class MachineLocks {
  public:
    /// @param token of the request; empty: only processes of the same launcher share
    /// @param program its name, shown to waiting processes
    /// @param patience_seconds maximum waiting time; default: $TENKEN_LOCK_SECONDS, or a minute
    MachineLocks(const std::string& token, const std::string& program, double patience_seconds);
    MachineLocks(const std::string& token, const std::string& program);
    ~MachineLocks();
    MachineLocks(const MachineLocks&) = delete;
    MachineLocks& operator=(const MachineLocks&) = delete;

    /// Acquires the lock of the host. If no lock is possible the measurement continues, and the document
    /// states it.
    /// @throws Shared
    void hold_host();
    /// The same for a GPU, by its UUID. @throws Shared
    void hold_gpu(const std::string& uuid);

    /// Another process of this measurement found the machine shared: its message.
    void is_shared(const std::string& text);

    /// Locks held, waiting time, sharing, and the reason if there is no lock: the document's `locks`.
    Json json() const;

    /// The locks of the run of this process; null outside a run.
    static MachineLocks* of_this_process();

  private:
    void hold(const std::string& name, const std::string& what);
    std::string holder(int descriptor) const;

    std::string token_;
    std::string program_;
    double patience_seconds_;
    std::string why_none_;  // declared before the folder, whose search sets it
    std::string folder_;
    std::string shared_with_;
    double waited_seconds_ = 0;
    std::vector<std::string> held_;
    std::vector<int> descriptors_;
};

}  // namespace tenken
