#include "lib/base/unfinished.h"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <mutex>
#include <stdexcept>

namespace tenken {

namespace {

// Read by a signal handler: plain memory that stays valid for the life of the process.
struct Slot {
    char path[Unfinished::max_bytes + 1];
    volatile std::sig_atomic_t used;
};
Slot slots[Unfinished::maximum];

extern "C" void remove_unfinished(int signal_number) {
    for (Slot& slot : slots) {
        if (slot.used != 0) unlink(slot.path);
    }
    for (Slot& slot : slots) {
        if (slot.used != 0) rmdir(slot.path);
    }
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
}

std::mutex& mutex() {
    static std::mutex one;
    return one;
}

}  // namespace

Unfinished::Unfinished(const std::string& path) : slot_(-1) {
    if (path.size() > max_bytes) throw std::runtime_error("the path is too long: " + path);
    const std::lock_guard<std::mutex> lock(mutex());
    for (int i = 0; i < maximum && slot_ < 0; ++i) {
        if (slots[i].used == 0) slot_ = i;
    }
    if (slot_ < 0) throw std::runtime_error("too many unfinished files at a time: " + path);
    std::strcpy(slots[slot_].path, path.c_str());
    slots[slot_].used = 1;
    for (int number : {SIGTERM, SIGINT, SIGHUP}) {
        // A signal ignored by the parent (nohup) stays ignored.
        if (std::signal(number, remove_unfinished) == SIG_IGN) std::signal(number, SIG_IGN);
    }
}

Unfinished::~Unfinished() {
    if (slot_ < 0) return;
    const std::lock_guard<std::mutex> lock(mutex());
    slots[slot_].used = 0;
}

}  // namespace tenken
