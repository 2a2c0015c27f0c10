#include "lib/file_io/ready_thread.h"

#include <utility>

#include "lib/base/placement.h"

namespace file_io {

ReadyThread::ReadyThread(std::function<void()> begin) : begin_(std::move(begin)) {
    tenken::process_cpus();  // queried before a thread is bound
    thread_ = std::thread([this] { serve(); });
}

ReadyThread::~ReadyThread() {
    disarm();
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ending_ = true;
    }
    called_.notify_one();
    thread_.join();
}

void ReadyThread::arm() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        armed_ = true;
    }
    called_.notify_one();
}

void ReadyThread::disarm() {
    settle();
    armed_ = false;
}

void ReadyThread::attempt(bool there) noexcept {
    try {
        if (there && !begun_) begin_();
        begun_ = begun_ || there;
        work_();
    } catch (...) {
        error_ = std::current_exception();
    }
}

void ReadyThread::start(std::function<void()> work) {
    settle();
    work_ = std::move(work);
    error_ = nullptr;
    if (!armed_) return attempt(false);
    started_.fetch_add(1, std::memory_order_release);
}

void ReadyThread::settle() const noexcept {
    const std::uint64_t wanted = started_.load(std::memory_order_acquire);
    while (over_.load(std::memory_order_acquire) != wanted) std::this_thread::yield();
}

void ReadyThread::wait() const {
    settle();
    if (error_) std::rethrow_exception(error_);
}

void ReadyThread::serve() {
    // This thread would inherit the single CPU to which the main thread is bound (OMP_PROC_BIND).
    tenken::bind_this_thread(tenken::process_cpus());
    while (true) {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            called_.wait(lock, [this] { return ending_ || armed_; });
            if (ending_) return;
        }
        while (armed_.load(std::memory_order_relaxed)) {
            const std::uint64_t done = over_.load(std::memory_order_relaxed);
            if (started_.load(std::memory_order_acquire) == done) {
                std::this_thread::yield();
                continue;
            }
            attempt(true);
            over_.store(done + 1, std::memory_order_release);
        }
    }
}

}  // namespace file_io
