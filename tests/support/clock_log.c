/* The clock of the programs, which also writes down what it tells: put in front of a program by LD_PRELOAD,
 * it leaves the raw times beside a document that holds rates. It stands for std::chrono::steady_clock::now()
 * of libstdc++. Each process appends pairs of 64-bit numbers to $TENKEN_TEST_CLOCK.<pid>: the thread, and the
 * nanoseconds that it was told. An MPI rank first writes -3 and its number; the clock of the one that
 * $TENKEN_TEST_SLOW_RANK names runs 32 times as fast, so that it is the slowest of all.
 *
 * No two spans between readings of the main thread are of one length, as far as the first `unique` of them: a time
 * that would repeat one is told some nanoseconds later, and so are all after it. Back-to-back readings take one of a
 * few lengths on any machine, and on some the clock has steps: a test that looks for a span would find it twice. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void tenken_test_note(int64_t kind, int64_t value) {
    static int file = -1;
    if (file < 0) {
        const char* const name = getenv("TENKEN_TEST_CLOCK");
        char path[4096];
        if (name == NULL) return;
        snprintf(path, sizeof path, "%s.%ld", name, (long)getpid());
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    }
    const int64_t pair[2] = {kind, value};
    if (write(file, pair, sizeof pair) != (ssize_t)sizeof pair) abort(); /* half a log would prove nothing */
}

static int64_t told(int64_t nanoseconds) {
    static int64_t first = 0;
    static int factor = 0;
    if (factor == 0) {
        const char* const rank = getenv("OMPI_COMM_WORLD_RANK");
        const char* const slow = getenv("TENKEN_TEST_SLOW_RANK");
        factor = rank != NULL && slow != NULL && strcmp(rank, slow) == 0 ? 32 : 1; /* above what a busy machine costs the others */
        first = nanoseconds;
        if (rank != NULL) tenken_test_note(-3, atoi(rank));
    }
    return first + factor * (nanoseconds - first);
}

enum { unique = 2048, slots = 1 << 22 };
static int64_t spans[slots]; /* all lengths so far, hashed; 0: free */

static int64_t* slot(int64_t span) {
    uint64_t at = (uint64_t)span * 0x9e3779b97f4a7c15u >> 42;
    while (spans[at] != 0 && spans[at] != span) at = (at + 1) % slots;
    return &spans[at];
}

/* The first time from this one on whose distances to all earlier readings are new. */
static int64_t apart(int64_t time) {
    static int64_t readings[unique];
    static int count = 0;
    if (count == unique) return time;
    for (int i = count - 1; i >= 0; --i) {
        if (time > readings[i] && *slot(time - readings[i]) == 0) continue;
        ++time;
        i = count; /* from the last one again */
    }
    for (int i = 0; i < count; ++i) *slot(time - readings[i]) = time - readings[i];
    readings[count++] = time;
    return time;
}

int64_t _ZNSt6chrono3_V212steady_clock3nowEv(void) {
    static _Atomic int64_t ahead = 0; /* what has been added so far */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t nanoseconds = told((int64_t)now.tv_sec * 1000000000 + now.tv_nsec) + atomic_load(&ahead);
    const long thread = syscall(SYS_gettid);
    if (thread == getpid()) {
        const int64_t later = apart(nanoseconds);
        atomic_fetch_add(&ahead, later - nanoseconds);
        nanoseconds = later;
    }
    tenken_test_note(thread, nanoseconds);
    return nanoseconds;
}

/* What a program asks of the page cache and of the disk, in the order of its readings of the clock. */
int posix_fadvise(int file, off_t offset, off_t length, int advice) {
    tenken_test_note(-5, advice);
    return (int)syscall(SYS_fadvise64, file, offset, length, advice) == 0 ? 0 : errno;
}

int posix_fadvise64(int file, off_t offset, off_t length, int advice) {
    return posix_fadvise(file, offset, length, advice);
}

int fsync(int file) {
    tenken_test_note(-6, 0);
    return (int)syscall(SYS_fsync, file);
}
