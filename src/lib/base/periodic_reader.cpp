#include "lib/base/periodic_reader.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "lib/base/placement.h"

namespace tenken {

PeriodicReader::PeriodicReader() {
    process_cpus();
}

PeriodicReader::~PeriodicReader() {
    stop();
}

void PeriodicReader::start(std::function<void()> read, double interval_seconds) {
    if (running()) return;
    continue_ = true;
    const int caller_cpu = sched_getcpu();
    thread_ = std::thread(
        [this, caller_cpu, interval_seconds, read] { repeat(caller_cpu, interval_seconds, read); });
}

void PeriodicReader::repeat(int avoid_cpu, double interval_seconds, const std::function<void()>& read) {
    std::vector<int> cpus = process_cpus();
    cpus.erase(std::remove(cpus.begin(), cpus.end(), avoid_cpu), cpus.end());
    bind_this_thread(cpus);
    std::unique_lock<std::mutex> lock(mutex_);
    do {
        lock.unlock();
        read();
        lock.lock();
        ended_.wait_for(lock, std::chrono::duration<double>(interval_seconds), [this] { return !continue_; });
    } while (continue_);
}

void PeriodicReader::stop() {
    if (!running()) return;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        continue_ = false;
    }
    ended_.notify_all();
    thread_.join();
}

}  // namespace tenken
