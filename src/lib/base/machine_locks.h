// Locks by which measurements on one machine keep out of each other's way.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "lib/base/json.h"

namespace tenken {

/// Thrown where another measurement held the host or a GPU for as long as this one could wait.
class Shared : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// The locks of one measurement: of the host and of each GPU. A lock is a file that flock(2) holds, in a
/// folder that all users may write, so that it ends with its process whatever becomes of that. Measurements
/// of one token (the ranks of a job, and the script that started them) share their locks; all others wait,
/// then give up. The same protocol is spoken by tenken/reframe/locks.py for programs that are not ours.
class MachineLocks {
  public:
    /// @param token of the request; empty: processes of one launcher share, any other process is alone
    /// @param program its name, told to whoever waits
    /// @param patience_seconds how long to wait for another; by default $TENKEN_LOCK_SECONDS, or a minute
    MachineLocks(const std::string& token, const std::string& program, double patience_seconds);
    MachineLocks(const std::string& token, const std::string& program);
    ~MachineLocks();
    MachineLocks(const MachineLocks&) = delete;
    MachineLocks& operator=(const MachineLocks&) = delete;

    /// Holds the lock of the host. Where no lock can be made the measurement goes on, and the document says
    /// so.
    /// @throws Shared
    void hold_host();
    /// The same for a GPU, by its UUID. @throws Shared
    void hold_gpu(const std::string& uuid);

    /// Another process of this measurement found it shared: how it said so.
    void is_shared(const std::string& text);

    /// What is held, how long was waited, with whom it is shared, why there is none: the document's `locks`.
    Json json() const;

    /// Those of the run of this process; null outside of one.
    static MachineLocks* of_this_process();

  private:
    void hold(const std::string& name, const std::string& what);
    std::string holder(int descriptor) const;

    std::string token_;
    std::string program_;
    double patience_seconds_;
    std::string why_none_;  // before the folder, whose search fills it
    std::string folder_;
    std::string shared_with_;
    double waited_seconds_ = 0;
    std::vector<std::string> held_;
    std::vector<int> descriptors_;
};

}  // namespace tenken
