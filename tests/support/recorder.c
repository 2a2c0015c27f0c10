/* What a program does, in order: put in front of it by LD_PRELOAD, this writes down every reading of the clock, every
 * parallel region, what is asked of files, and what gpu_double.c adds of launches, copies and events on GPUs. The clock
 * stands for std::chrono::steady_clock::now() of libstdc++. Each process appends pairs of 64-bit numbers to
 * $TENKEN_TEST_CLOCK.<pid>: the thread and the nanoseconds that it was told, or one of the kinds below (negative) and
 * a value. Of an MPI rank, the clock of the one that $TENKEN_TEST_SLOW_RANK names runs 32 times as fast (twice where
 * time is made up), so that it is the slowest of all.
 *
 * No two spans between readings of the main thread are of one length, as far as the first `unique` of them, and none
 * from a reading to the next of real time, however many: a time that would repeat one is told some nanoseconds later,
 * and so are all after it. Back-to-back readings take one of a few lengths on any machine, and on some the clock has
 * steps: a test that looks for a span would find it twice.
 *
 * With $TENKEN_TEST_SKIPPED, the numbers of steps of the main thread in the order of the log, these do nothing: regions,
 * kernels, copies, reads and writes.
 *
 * With $TENKEN_TEST_SLOW=host each parallel region of the main thread takes 1 s more, of a slow rank 2 s.
 *
 * With $TENKEN_TEST_STEP the time is made up: from one reading of the main thread to the next so many nanoseconds
 * pass and up to a tenth more, whatever the program does, so that it does the same in each run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Kinds that this file writes; of another thread than the main one they are `other` less. gpu_double.c has more. */
enum { rank_number = -3, advised = -5, synced = -6, launched = -7, read_file = -8, wrote_file = -9, looked_up = -10, moved = -11 };
enum { cleared = -13, size_of_it = -20, opened = -22, closed = -23, removed = -24, slept = -29, met = -30 };
enum { other = 100 };

static int on_main_thread(void) {
    return syscall(SYS_gettid) == getpid();
}

static void write_down(const int64_t* numbers, size_t bytes) {
    static int file = -1;
    static pid_t process = 0;
    if (process != getpid()) {
        const char* const name = getenv("TENKEN_TEST_CLOCK");
        char path[4096];
        if (name == NULL) return;
        process = getpid();
        snprintf(path, sizeof path, "%s.%ld", name, (long)process);
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    }
    if (syscall(SYS_write, file, numbers, bytes) != (long)bytes) abort(); /* half a log would prove nothing */
}

void tenken_test_note(int64_t kind, int64_t value) {
    const int64_t pair[2] = {kind, value};
    write_down(pair, sizeof pair);
}

static int64_t steps = 0; /* of the main thread */

void tenken_test_step(int64_t kind, int64_t value) {
    if (on_main_thread()) ++steps;
    tenken_test_note(on_main_thread() ? kind : kind - other, value);
}

/* A step with its size in two numbers, written together: other threads may write as well. */
void tenken_test_pass(int64_t nanoseconds);

/* The first call with $TENKEN_TEST_FIRST_COSTS, SIZE:NANOSECONDS, takes that long: it connects, or loads a kernel. */
static void take_first(int64_t size) {
    static int taken = 0;
    const char* const told = getenv("TENKEN_TEST_FIRST_COSTS");
    if (taken || told == NULL || atoll(told) != size) return;
    taken = 1;
    tenken_test_pass(atoll(strchr(told, ':') + 1));
}

void tenken_test_sized(int64_t kind, int64_t value, int64_t size, int64_t more) {
    take_first(size);
    const int64_t of = on_main_thread() ? 0 : other;
    const int64_t pairs[6] = {kind - of, value, size_of_it, size, size_of_it, more};
    if (of == 0) ++steps;
    write_down(pairs, sizeof pairs);
}

/* Whether the step that was noted last is one to be skipped. */
int tenken_test_skipped(void) {
    static const char* next = NULL;
    if (next == NULL && (next = getenv("TENKEN_TEST_SKIPPED")) == NULL) next = "";
    if (*next == 0 || !on_main_thread()) return 0;
    while (*next != 0 && atoll(next) < steps - 1) next += strcspn(next, " "), next += *next != 0;
    return *next != 0 && atoll(next) == steps - 1;
}

/* Where the program itself lies: its end is that of its last segment. */
static const char* base = NULL;
static const char* end = NULL;

static int find_program(struct dl_phdr_info* one, size_t size, void* data) {
    (void)size, (void)data;
    for (int i = 0; i < one->dlpi_phnum; ++i) {
        const char* const last = (const char*)one->dlpi_addr + one->dlpi_phdr[i].p_vaddr + one->dlpi_phdr[i].p_memsz;
        if (one->dlpi_phdr[i].p_type == PT_LOAD && last > end) end = last;
    }
    return base = (const char*)one->dlpi_addr, 1; /* the program is the first */
}

static int of_program(const void* address) {
    if (base == NULL) dl_iterate_phdr(find_program, NULL);
    return (const char*)address >= base && (const char*)address < end;
}

/* A function of the program itself, by its place in the file: the names are in its table of symbols. `gpu` runs it, by
 * so many blocks of so many threads. */
int tenken_test_launched(const void* function, int64_t gpu, int64_t blocks, int64_t threads) {
    if (!of_program(function)) return 0;
    tenken_test_sized(launched, gpu << 48 | ((const char*)function - base), blocks, threads);
    return tenken_test_skipped();
}

int64_t tenken_test_place(const void* function) {
    return (const char*)function - base;
}

static int64_t step(void) {
    static int64_t nanoseconds = -1;
    if (nanoseconds < 0) {
        const char* const text = getenv("TENKEN_TEST_STEP");
        nanoseconds = text == NULL ? 0 : atoll(text);
    }
    return nanoseconds;
}

static pid_t original = 0;
static int64_t born = 0;

static int64_t real_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

__attribute__((constructor)) static void begin(void) {
    original = getpid();
    born = real_time();
}

/* The same times in each run, others in each rank and in a process that another one forked. */
static int64_t made_up(int64_t real) {
    static _Atomic int64_t now = 0;
    static uint64_t state = 88172645463325252u;
    static pid_t process = 0;
    if (!on_main_thread()) return atomic_load(&now) + real - born; /* who watches or waits does so as always */
    if (process != getpid()) {
        const char* const rank = getenv("OMPI_COMM_WORLD_RANK");
        process = getpid();
        state += 7919 * (uint64_t)(rank != NULL ? 2 + atoi(rank) : 1) + (process != original ? 104729 : 0);
    }
    state ^= state << 13, state ^= state >> 7, state ^= state << 17; /* xorshift, by Marsaglia */
    return atomic_fetch_add(&now, step() + (int64_t)(state % (uint64_t)(step() / 10 + 1))) + 1;
}

/* How many times as fast the clock of this rank runs: 32 is above what a busy machine costs the others. */
static int64_t factor(void) {
    const char* const rank = getenv("OMPI_COMM_WORLD_RANK");
    const char* const slow = getenv("TENKEN_TEST_SLOW_RANK");
    return rank != NULL && slow != NULL && strcmp(rank, slow) == 0 ? (step() > 0 ? 2 : 32) : 1;
}

static int64_t told(int64_t nanoseconds) {
    static int64_t first = 0, times = 0;
    if (times == 0) {
        const char* const rank = getenv("OMPI_COMM_WORLD_RANK");
        times = factor();
        first = nanoseconds;
        if (rank != NULL) tenken_test_note(rank_number, atoi(rank));
    }
    return first + times * (nanoseconds - first);
}

enum { unique = 2048, slots = 1 << 22 };
static int64_t spans[slots]; /* all lengths so far, hashed; 0: free */

static int64_t* slot(int64_t span) {
    uint64_t at = (uint64_t)span * 0x9e3779b97f4a7c15u >> 42;
    while (spans[at] != 0 && spans[at] != span) at = (at + 1) % slots;
    return &spans[at];
}

/* The first time from this one on whose distance to the reading before is new. */
static int64_t new_step(int64_t time, int64_t before) {
    static int count = 0;
    if (step() > 0 || count == slots / 8) return time; /* a third of the table stays free */
    while (time <= before || *slot(time - before) != 0) ++time;
    return ++count, *slot(time - before) = time - before, time;
}

/* The first time from this one on whose distances to all earlier readings are new; after `unique` of them, that to the
 * last one. */
static int64_t apart(int64_t time) {
    static int64_t readings[unique];
    static int count = 0;
    if (count == unique) return readings[unique - 1] = new_step(time, readings[unique - 1]);
    for (int i = count - 1; i >= 0; --i) {
        if (time > readings[i] && *slot(time - readings[i]) == 0) continue;
        ++time;
        i = count; /* from the last one again */
    }
    for (int i = 0; i < count; ++i) *slot(time - readings[i]) = time - readings[i];
    readings[count++] = time;
    return time;
}

static _Atomic int64_t ahead = 0; /* what has been added so far */

void tenken_test_pass(int64_t nanoseconds) {
    atomic_fetch_add(&ahead, nanoseconds);
}

int64_t _ZNSt6chrono3_V212steady_clock3nowEv(void) {
    const int64_t real = real_time();
    int64_t nanoseconds = told(step() > 0 ? made_up(real) : real) + atomic_load(&ahead);
    const long thread = syscall(SYS_gettid);
    if (on_main_thread()) {
        const int64_t later = apart(nanoseconds);
        atomic_fetch_add(&ahead, later - nanoseconds);
        nanoseconds = later;
    }
    tenken_test_note(thread, nanoseconds);
    return nanoseconds;
}

/* A pause of the main thread of 0.2 s or more is part of how it measures, and takes no time here; who waits for a lock
 * looks more often. */
int nanosleep(const struct timespec* time, struct timespec* left) {
    const int64_t nanoseconds = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
    if (!on_main_thread() || step() == 0 || nanoseconds < 200000000) return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    tenken_test_sized(slept, 0, nanoseconds / 1000000, 0);
    return tenken_test_pass(nanoseconds), 0;
}

/* Who waits until a moment that is made up looks again every 2 ms: the real clock may be hours from it. */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* until) {
    static int (*next)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*) = NULL;
    if (next == NULL) next = (int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*))dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    if (clock != CLOCK_MONOTONIC || step() == 0) return next(condition, mutex, clock, until);
    const int64_t soon = real_time() + 2000000;
    const struct timespec then = {soon / 1000000000, soon % 1000000000};
    return next(condition, mutex, clock, &then);
}

/* With $TENKEN_TEST_MEETINGS: where threads that waited for each other go on, since the last of them wakes all. */
void _ZNSt18condition_variable10notify_allEv(void* condition) {
    static void (*next)(void*) = NULL;
    if (next == NULL) next = (void (*)(void*))dlsym(RTLD_NEXT, "_ZNSt18condition_variable10notify_allEv");
    if (getenv("TENKEN_TEST_MEETINGS") != NULL && !on_main_thread()) tenken_test_step(met, 0);
    next(condition);
}

/* Parallel regions. */
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags) {
    static void (*next)(void (*)(void*), void*, unsigned, unsigned) = NULL;
    if (next == NULL) next = (void (*)(void (*)(void*), void*, unsigned, unsigned))dlsym(RTLD_NEXT, "GOMP_parallel");
    if (!tenken_test_launched((const void*)function, 0, 0, 0)) next(function, data, threads, flags);
    const char* const slow = getenv("TENKEN_TEST_SLOW");
    if (slow != NULL && strcmp(slow, "host") == 0 && on_main_thread()) tenken_test_pass(1000000000 * factor());
}

/* What is read of /proc may have any length: lines, and nothing but text. */
static int is_text(const unsigned char* from, size_t bytes) {
    int lines = 0;
    for (size_t i = 0; i < bytes; ++i) {
        if (from[i] == '\n') ++lines;
        else if ((from[i] < ' ' && from[i] != '\t') || from[i] > 126) return 0;
    }
    return lines > 0;
}

/* Copies by the program itself of whole KiB, which hardly an object has; dlsym() copies too. */
static void* move(void* to, const void* from, size_t bytes, const void* caller) {
    static void* (*volatile next)(void*, const void*, size_t) = NULL;
    static int looking = 0;
    if (bytes > 0 && bytes % 1024 == 0 && of_program(caller) && !is_text(from, bytes)) {
        tenken_test_sized(moved, 0, (int64_t)bytes, 0);
        if (tenken_test_skipped()) return to;
    }
    if (next == NULL && !looking) {
        looking = 1;
        next = (void* (*)(void*, const void*, size_t))dlsym(RTLD_NEXT, "memmove");
    }
    if (next != NULL) return next(to, from, bytes);
    char* const there = to;
    const char* const here = from;
    if (there < here) {
        for (size_t i = 0; i < bytes; ++i) *((volatile char*)there + i) = here[i];
    } else {
        for (size_t i = bytes; i-- > 0;) *((volatile char*)there + i) = here[i];
    }
    return to;
}

void* memmove(void* to, const void* from, size_t bytes) {
    return move(to, from, bytes, __builtin_return_address(0));
}

void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
    return move(to, from, bytes, __builtin_return_address(0));
}

/* Of what is cleared, 64 KiB and more are data. */
void* memset(void* to, int byte, size_t bytes) {
    if (bytes >= 65536 && bytes % 1024 == 0 && of_program(__builtin_return_address(0))) tenken_test_sized(cleared, 0, (int64_t)bytes, 0);
    static void* (*volatile next)(void*, int, size_t) = NULL;
    static int looking = 0;
    if (next == NULL && !looking) {
        looking = 1;
        next = (void* (*)(void*, int, size_t))dlsym(RTLD_NEXT, "memset");
    }
    if (next != NULL) return next(to, byte, bytes);
    for (size_t i = 0; i < bytes; ++i) *((volatile char*)to + i) = (char)byte;
    return to;
}

/* What a program asks of files, of the page cache and of the disk. */
int posix_fadvise(int file, off_t offset, off_t length, int advice) {
    tenken_test_step(advised, advice);
    return (int)syscall(SYS_fadvise64, file, offset, length, advice) == 0 ? 0 : errno;
}

int posix_fadvise64(int file, off_t offset, off_t length, int advice) {
    return posix_fadvise(file, offset, length, advice);
}

static void take_time(const char* costs, size_t bytes);
static _Thread_local size_t largest_write;

int fsync(int file) {
    tenken_test_step(synced, 0);
    take_time("TENKEN_TEST_SYNC_COSTS", largest_write);
    largest_write = 0;
    return (int)syscall(SYS_fsync, file);
}

/* Files of its data: a program keeps them in folders of its own (lib/file_io/scratch.h). */
static char of_data[4096]; /* by descriptor */

int open(const char* path, int flags, ...) {
    static int (*next)(const char*, int, ...) = NULL;
    if (next == NULL) next = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, "open");
    const int counts = strstr(path, "/.tenken-") != NULL && of_program(__builtin_return_address(0));
    va_list rest;
    va_start(rest, flags);
    const int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    if (counts) { /* and its number, if its name has one: sample7.bin */
        const char* const name = strrchr(path, '/') + 1;
        const char* const number = *name == '.' ? "" : name + strcspn(name, "0123456789."); /* a folder's is random */
        tenken_test_sized(opened, (flags & O_CREAT) != 0, atoll(number), 0);
    }
    const int file = next(path, flags, mode);
    if (file >= 0 && file < (int)sizeof of_data) of_data[file] = (char)counts;
    return file;
}

int close(int file) {
    if (file >= 0 && file < (int)sizeof of_data && of_data[file]) tenken_test_step(closed, of_data[file] = 0);
    return (int)syscall(SYS_close, file);
}

int unlink(const char* path) {
    if (strstr(path, "/.tenken-") != NULL) tenken_test_step(removed, 0);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* How long a program waits for a lock is not of its protocol. */
static int is_lock(int file) {
    const char* const folder = getenv("TENKEN_LOCKS");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    return folder != NULL && length > 0 && strncmp(path, folder, strlen(folder)) == 0;
}

/* With $TENKEN_TEST_LOST these move nothing: read, or write; after the first $TENKEN_TEST_LOST_AFTER of them. A library
 * reads what describes its data in small pieces. */
static int lost(const char* what, size_t bytes) {
    static _Atomic long moved = 0;
    const char* const told = getenv("TENKEN_TEST_LOST");
    const char* const after = getenv("TENKEN_TEST_LOST_AFTER");
    if (told == NULL || bytes < 4096 || strcmp(told, what) != 0) return 0;
    return atomic_fetch_add(&moved, 1) >= (after == NULL ? 0 : atol(after));
}

/* What reads and writes of a size cost: "BYTES:NANOSECONDS BYTES:NANOSECONDS" in $TENKEN_TEST_COSTS; an fsync, by the
 * largest write before it, in $TENKEN_TEST_SYNC_COSTS. */
static void take_time(const char* costs, size_t bytes) {
    const char* next = getenv(costs);
    for (; next != NULL && *next != 0; next += strcspn(next, " "), next += *next != 0) {
        if (strtoull(next, NULL, 10) == bytes) tenken_test_pass(atoll(strchr(next, ':') + 1));
    }
}

ssize_t pread(int file, void* memory, size_t bytes, off_t offset) {
    const int of_data = !is_lock(file);
    take_time("TENKEN_TEST_COSTS", bytes);
    if (of_data) tenken_test_sized(read_file, (int64_t)bytes, (int64_t)bytes, 0);
    if (of_data && (tenken_test_skipped() || lost("read", bytes))) return (ssize_t)bytes;
    return syscall(SYS_pread64, file, memory, bytes, offset);
}

ssize_t pread64(int file, void* memory, size_t bytes, off_t offset) {
    return pread(file, memory, bytes, offset);
}

ssize_t pwrite(int file, const void* memory, size_t bytes, off_t offset) {
    const int of_data = !is_lock(file);
    take_time("TENKEN_TEST_COSTS", bytes);
    if (bytes > largest_write) largest_write = bytes;
    if (of_data) tenken_test_sized(wrote_file, (int64_t)bytes, (int64_t)bytes, 0);
    if (of_data && (tenken_test_skipped() || lost("write", bytes))) return (ssize_t)bytes;
    return syscall(SYS_pwrite64, file, memory, bytes, offset);
}

ssize_t pwrite64(int file, const void* memory, size_t bytes, off_t offset) {
    return pwrite(file, memory, bytes, offset);
}

/* One character of $TENKEN_TEST_CACHED for each query: of this file no page (0) or every one (1) is in the cache. */
int mincore(void* memory, size_t bytes, unsigned char* pages) {
    static const char* next = NULL;
    tenken_test_step(looked_up, 0);
    if (next == NULL && (next = getenv("TENKEN_TEST_CACHED")) == NULL) next = "";
    if (*next == 0) return (int)syscall(SYS_mincore, memory, bytes, pages);
    memset(pages, *next++ - '0', (bytes + 4095) / 4096);
    return 0;
}
