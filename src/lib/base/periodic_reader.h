// A thread that reads sensors during a timed part.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace tenken {

/// Calls a function repeatedly in a separate thread. The thread may run on any CPU of the process except the
/// one that called start(), so that it takes no time from it. A class that has one as a member declares it
/// last, so that it is stopped before what it reads is destroyed.
class PeriodicReader {
  public:
    /// Determines the CPUs of the process, because in the new thread the query would start OpenMP threads.
    PeriodicReader();
    ~PeriodicReader();
    PeriodicReader(const PeriodicReader&) = delete;
    PeriodicReader& operator=(const PeriodicReader&) = delete;

    /// Calls `read` at least once, however soon stop() is called.
    /// @param read called without a lock; its results may be used after stop()
    /// @param interval_seconds between the end of a call and the next
    void start(std::function<void()> read, double interval_seconds);
    /// Waits for a call in progress. Without start() it does nothing.
    void stop();
    bool running() const { return thread_.joinable(); }

  private:
    void repeat(int avoid_cpu, double interval_seconds, const std::function<void()>& read);

    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable ended_;
    bool continue_ = false;
};

}  // namespace tenken
