#include "lib/base/parallel_for_devices.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "lib/base/placement.h"

namespace tenken {

/// A barrier that can be broken, so that the others do not wait for a member that failed.
class Barrier {
  public:
    explicit Barrier(int count) : count_(count) {}

    void wait() {
        std::unique_lock<std::mutex> lock(mutex_);
        const long round = round_;
        if (++waiting_ == count_) {
            waiting_ = 0;
            ++round_;
            changed_.notify_all();
        }
        changed_.wait(lock, [&] { return broken_ || round_ != round; });
        if (round_ == round) throw std::runtime_error("stopped: another GPU failed");
    }

    /// Stores the first error, which parallel_for_devices() rethrows.
    void fail(std::exception_ptr error) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = error;
        broken_ = true;
        changed_.notify_all();
    }

    std::exception_ptr error() const { return error_; }

  private:
    const int count_;
    int waiting_ = 0;
    long round_ = 0;
    bool broken_ = false;
    std::exception_ptr error_;
    std::mutex mutex_;
    std::condition_variable changed_;
};

void DeviceWorker::synchronize() {
    if (barrier_ != nullptr) barrier_->wait();
}

void parallel_for_devices(int count, bool at_once, const std::function<void(DeviceWorker&)>& work) {
    if (!at_once || count < 2) {
        for (int i = 0; i < count; ++i) {
            DeviceWorker worker(i, nullptr);
            work(worker);
        }
        return;
    }
    Barrier barrier(count);
    // All of them would inherit the single CPU to which the main thread is bound (OMP_PROC_BIND).
    const std::vector<int> cpus = process_cpus();
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
        threads.emplace_back([&, i] {
            bind_this_thread(cpus);
            DeviceWorker worker(i, &barrier);
            try {
                work(worker);
            } catch (...) {
                barrier.fail(std::current_exception());
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    if (barrier.error()) std::rethrow_exception(barrier.error());
}

}  // namespace tenken
