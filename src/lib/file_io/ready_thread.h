// A thread that polls for work and starts it without delay.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace file_io {

/// Relieves the calling thread of work that is shorter than waking a thread (some 10 us): a kernel launch
/// takes 4 to 6 us. Between arm() and disarm() it occupies a CPU, but yields to other threads that need it;
/// otherwise it sleeps. One piece of work at a time.
class ReadyThread {
  public:
    /// @param begin called once in the thread before its first work
    explicit ReadyThread(std::function<void()> begin);
    ~ReadyThread();
    ReadyThread(const ReadyThread&) = delete;
    ReadyThread& operator=(const ReadyThread&) = delete;

    /// Starts polling.
    void arm();
    /// Returns to sleep.
    void disarm();
    /// Starts `work` in that thread; if it is not armed, runs it here. Data that `work` refers to must exist
    /// until wait() or settle(). Callable from any single thread.
    void start(std::function<void()> work);
    /// Waits for the started work; returns immediately if there is none. Callable from several threads.
    /// @throws the exception of the work
    void wait() const;
    /// The same, ignoring exceptions of the work.
    void settle() const noexcept;

  private:
    void serve();
    /// @param there in the separate thread
    void attempt(bool there) noexcept;

    std::function<void()> begin_;
    std::function<void()> work_;
    bool begun_ = false;
    std::exception_ptr error_;
    std::atomic<std::uint64_t> started_{0};
    std::atomic<std::uint64_t> over_{0};
    std::atomic<bool> armed_{false};
    std::mutex mutex_;
    std::condition_variable called_;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace file_io
