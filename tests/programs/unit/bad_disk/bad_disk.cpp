// A disk with faults, preloaded into a program by LD_PRELOAD:
//   BAD_DISK_ROOM=N        after N bytes written there is no space
//   BAD_DISK_ERROR=quota   ... and the error is that of a quota, not of a full device
//   BAD_DISK_NO_DIRECT=1   O_DIRECT is refused, as file systems in memory did before Linux 6.6
//   BAD_DISK_BLOCKS=N      N blocks of 1000 bytes may be written, of 10 N that are free and 100 N in all
//   BAD_DISK_NO_LOCKS=1    flock() has no locks, as on Lustre without its option
//   BAD_DISK_DELAY_US=N    each read and write is delayed: N microseconds on average, some much longer
// Reads and writes are pread() and pwrite(), and write() if the file was opened with O_DIRECT.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

namespace {

std::atomic<long long> written(0);

template <typename Function>
Function next(const char* name) {
    Function function = nullptr;
    *reinterpret_cast<void**>(&function) = dlsym(RTLD_NEXT, name);
    return function;
}

bool is_full(std::size_t bytes) {
    const char* const room = std::getenv("BAD_DISK_ROOM");
    if (room == nullptr) return false;
    written += static_cast<long long>(bytes);
    if (written <= std::atoll(room)) return false;
    const char* const error = std::getenv("BAD_DISK_ERROR");
    errno = error != nullptr && std::strcmp(error, "quota") == 0 ? EDQUOT : ENOSPC;
    return true;
}

void wait_for_others() {
    static const char* const mean = std::getenv("BAD_DISK_DELAY_US");
    if (mean == nullptr) return;
    thread_local std::mt19937 random(std::random_device{}());
    std::exponential_distribution<double> delay(1 / std::atof(mean));
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(delay(random)));
}

bool is_refused(int flags) {
    if ((flags & O_DIRECT) == 0 || std::getenv("BAD_DISK_NO_DIRECT") == nullptr) return false;
    errno = EINVAL;
    return true;
}

int open_by(const char* name, const char* path, int flags, mode_t mode) {
    if (is_refused(flags)) return -1;
    return next<int (*)(const char*, int, ...)>(name)(path, flags, mode);
}

mode_t mode_of(int flags, va_list list) {
    return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(list, int)) : 0;
}

}  // namespace

extern "C" {

int statvfs(const char* path, struct statvfs* found) {
    const int result = next<int (*)(const char*, struct statvfs*)>("statvfs")(path, found);
    const char* const blocks = std::getenv("BAD_DISK_BLOCKS");
    if (blocks == nullptr || result != 0) return result;
    found->f_bsize = 4096;
    found->f_frsize = 1000;
    found->f_bavail = std::strtoull(blocks, nullptr, 10);
    found->f_bfree = 10 * found->f_bavail;
    found->f_blocks = 100 * found->f_bavail;
    return 0;
}

ssize_t pwrite(int descriptor, const void* memory, std::size_t bytes, off_t offset) {
    if (is_full(bytes)) return -1;
    wait_for_others();
    return next<ssize_t (*)(int, const void*, std::size_t, off_t)>("pwrite")(descriptor, memory, bytes,
                                                                             offset);
}

ssize_t pwrite64(int descriptor, const void* memory, std::size_t bytes, off64_t offset) {
    if (is_full(bytes)) return -1;
    wait_for_others();
    return next<ssize_t (*)(int, const void*, std::size_t, off64_t)>("pwrite64")(descriptor, memory, bytes,
                                                                                 offset);
}

/// HDF5's direct driver seeks and writes; other writes go to no disk.
ssize_t write(int descriptor, const void* memory, std::size_t bytes) {
    if ((fcntl(descriptor, F_GETFL) & O_DIRECT) != 0) {
        if (is_full(bytes)) return -1;
        wait_for_others();
    }
    return next<ssize_t (*)(int, const void*, std::size_t)>("write")(descriptor, memory, bytes);
}

ssize_t pread(int descriptor, void* memory, std::size_t bytes, off_t offset) {
    wait_for_others();
    return next<ssize_t (*)(int, void*, std::size_t, off_t)>("pread")(descriptor, memory, bytes, offset);
}

ssize_t pread64(int descriptor, void* memory, std::size_t bytes, off64_t offset) {
    wait_for_others();
    return next<ssize_t (*)(int, void*, std::size_t, off64_t)>("pread64")(descriptor, memory, bytes, offset);
}

int flock(int descriptor, int operation) {
    if (std::getenv("BAD_DISK_NO_LOCKS") == nullptr)
        return next<int (*)(int, int)>("flock")(descriptor, operation);
    errno = ENOLCK;
    return -1;
}

int open(const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_by("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = mode_of(flags, list);
    va_end(list);
    return open_by("open64", path, flags, mode);
}
}
