#include "programs/data_loading/loader.h"

#include "lib/base/placement.h"

namespace data_loading {

Loader::Loader(int threads, const std::function<Read()>& make, std::vector<char*> ring, std::uint64_t stride,
               std::size_t batch)
    : ring_(std::move(ring)), stride_(stride), batch_(batch), missing_(ring_.size(), batch) {
    tenken::process_cpus();  // queried before a thread is bound
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, make] { serve(make); });
    try {
        wait_until_ready();
    } catch (...) {
        end();
        throw;
    }
}

Loader::~Loader() {
    end();
}

void Loader::end() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ending_ = true;
    }
    to_read_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Loader::wait_until_ready() {
    std::unique_lock<std::mutex> lock(mutex_);
    is_there_.wait(lock, [this] { return error_ || ready_ == threads_.size(); });
    if (error_) std::rethrow_exception(error_);
}

void Loader::begin(const std::vector<std::size_t>& order) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        order_ = &order;
        begun_ = given_ = released_ = 0;
        missing_.assign(ring_.size(), batch_);
    }
    to_read_.notify_all();
}

Batch Loader::next() {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::size_t place = given_ % ring_.size();
    is_there_.wait(lock, [&] { return error_ || missing_[place] == 0; });
    if (error_) std::rethrow_exception(error_);
    return {order_->data() + batch_ * given_++, batch_, ring_[place]};
}

void Loader::release() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        missing_[released_++ % ring_.size()] = batch_;
    }
    to_read_.notify_all();
}

void Loader::serve(const std::function<Read()>& make) {
    // All of them would inherit the single CPU to which the main thread is bound (OMP_PROC_BIND).
    tenken::bind_this_thread(tenken::process_cpus());
    try {
        const Read read = make();
        std::unique_lock<std::mutex> lock(mutex_);
        ++ready_;
        is_there_.notify_all();
        while (true) {
            to_read_.wait(lock, [this] { return ending_ || may_read(); });
            if (ending_) return;
            const std::size_t mine = begun_++;
            const std::size_t place = mine / batch_ % ring_.size();
            char* const memory = ring_[place] + mine % batch_ * stride_;
            const std::size_t sample = (*order_)[mine];
            lock.unlock();
            read(sample, memory);
            lock.lock();
            if (--missing_[place] == 0) is_there_.notify_all();
        }
    } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!error_) error_ = std::current_exception();
        is_there_.notify_all();
    }
}

}  // namespace data_loading
