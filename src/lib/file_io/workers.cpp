#include "lib/file_io/workers.h"

#include <algorithm>

#include "lib/base/placement.h"

namespace file_io {

int usable_threads() {
    static const int threads = std::max(1, tenken::find_placement().threads);
    return threads;
}

Workers::Workers(int maximum, const std::function<void()>& begin) {
    tenken::process_cpus();  // queried before a thread is bound
    for (int i = 1; i < maximum; ++i) seats_.emplace_back(new Seat);
    for (int i = 1; i < maximum; ++i) {
        seats_[static_cast<std::size_t>(i - 1)]->thread = std::thread([this, i, begin] { serve(i, begin); });
    }
}

Workers::~Workers() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ending_ = true;
    }
    for (const std::unique_ptr<Seat>& seat : seats_) {
        seat->called.notify_all();
        seat->thread.join();
    }
}

void Workers::attempt(int index, const std::function<void(int)>& work) {
    try {
        work(index);
    } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = std::current_exception();
    }
}

void Workers::serve(int index, const std::function<void()>& begin) {
    // All of them would inherit the single CPU to which the main thread is bound (OMP_PROC_BIND).
    tenken::bind_this_thread(tenken::process_cpus());
    bool begun = false;
    Seat& seat = *seats_[static_cast<std::size_t>(index - 1)];
    while (true) {
        const std::function<void(int)>* work = nullptr;
        {
            std::unique_lock<std::mutex> lock(mutex_);
            seat.called.wait(lock, [&] { return ending_ || seat.waiting; });
            if (ending_) return;
            seat.waiting = false;
            work = work_;
        }
        attempt(index, [&](int i) {
            if (!begun) begin();
            begun = true;
            (*work)(i);
        });
        const std::lock_guard<std::mutex> lock(mutex_);
        if (--busy_ == 0) finished_.notify_all();
    }
}

void Workers::run(int count, const std::function<void(int)>& work) {
    count = std::max(1, std::min(count, maximum()));
    if (count == 1) return work(0);
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        error_ = nullptr;
        work_ = &work;
        busy_ = count - 1;
        for (int i = 1; i < count; ++i) seats_[static_cast<std::size_t>(i - 1)]->waiting = true;
    }
    for (int i = 1; i < count; ++i) seats_[static_cast<std::size_t>(i - 1)]->called.notify_one();
    attempt(0, work);
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [this] { return busy_ == 0; });
    if (error_) std::rethrow_exception(error_);
}

}  // namespace file_io
