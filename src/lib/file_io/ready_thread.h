// A thread that looks for work all the time: what it is given begins at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace file_io {

/// Takes off the calling thread what is short, but not as short as waking a thread (some 10 us): launching a
/// kernel costs 4 to 6 us. Between arm() and disarm() it occupies a CPU, though it yields to whatever else
/// wants that one; otherwise it sleeps. One piece of work at a time.
class ReadyThread {
  public:
    /// @param begin called once in the thread before its first work
    explicit ReadyThread(std::function<void()> begin);
    ~ReadyThread();
    ReadyThread(const ReadyThread&) = delete;
    ReadyThread& operator=(const ReadyThread&) = delete;

    /// From here on it looks for work.
    void arm();
    /// It sleeps again.
    void disarm();
    /// Begins `work` there; where it is not armed, does it at once, here. What `work` refers to must live
    /// until wait() or settle(). By any one thread.
    void start(std::function<void()> work);
    /// Until the work that was started is over; at once where there is none. Any number of threads may.
    /// @throws what the work threw
    void wait() const;
    /// The same, whatever the work threw.
    void settle() const noexcept;

  private:
    void serve();
    /// @param there in the thread of its own
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
