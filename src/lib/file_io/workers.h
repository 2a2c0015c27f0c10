// Threads that stay: starting one costs more than a small transfer takes.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace file_io {

/// How many threads a program may use: as many as OpenMP would (OMP_NUM_THREADS, else the CPUs of the
/// process).
int usable_threads();

/// A team of threads, each of which may run on every CPU of the process. Work of fewer wakes only those.
class Workers {
  public:
    /// @param maximum threads, the calling one included
    /// @param begin called once in each other thread before its first work
    Workers(int maximum, const std::function<void()>& begin);
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    int maximum() const { return static_cast<int>(seats_.size()) + 1; }
    /// Calls work(i) for i in [0, count), each in a thread of its own, the first in the calling one, and
    /// waits.
    /// @throws what the first that failed threw, after all have ended
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
