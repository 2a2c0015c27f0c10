// Persistent threads: starting one takes longer than a small transfer.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace file_io {

/// Number of threads that a program may use: as many as OpenMP would (OMP_NUM_THREADS, otherwise the CPUs of
/// the process).
int usable_threads();

/// A team of threads, each of which may run on every CPU of the process. Work for fewer threads wakes only
/// those.
class Workers {
  public:
    /// @param maximum threads, including the calling one
    /// @param begin called once in each other thread before its first work
    Workers(int maximum, const std::function<void()>& begin);
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    int maximum() const { return static_cast<int>(seats_.size()) + 1; }
    /// Calls work(i) for i in [0, count), each in a separate thread, the first in the calling one, and
    /// waits.
    /// @throws the exception of the first that failed, after all have ended
    void run(int count, const std::function<void(int)>& work);

  private:
    struct Seat {
        std::thread thread;
        std::condition_variable called;
        bool waiting = false;  ///< for it to begin
    };
    void serve(int index, const std::function<void()>& begin);
    void attempt(int index, const std::function<void(int)>& work);

    std::vector<std::unique_ptr<Seat>> seats_;
    std::mutex mutex_;
    std::condition_variable finished_;
    const std::function<void(int)>* work_ = nullptr;
    int busy_ = 0;
    bool ending_ = false;
    std::exception_ptr error_;
};

}  // namespace file_io
