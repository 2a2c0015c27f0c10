/* The clock of the programs, which also writes down what it tells: put in front of a program by LD_PRELOAD,
 * it leaves the raw times beside a document that holds rates. It stands for std::chrono::steady_clock::now()
 * of libstdc++. Each process appends pairs of 64-bit numbers to $TENKEN_TEST_CLOCK.<pid>: the thread, and the
 * nanoseconds that it was told. An MPI rank first writes -3 and its number; the clock of the one that
 * $TENKEN_TEST_SLOW_RANK names runs twice as fast, so that it is the slowest of all. */
#define _GNU_SOURCE
#include <fcntl.h>
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
        factor = rank != NULL && slow != NULL && strcmp(rank, slow) == 0 ? 2 : 1;
        first = nanoseconds;
        if (rank != NULL) tenken_test_note(-3, atoi(rank));
    }
    return first + factor * (nanoseconds - first);
}

int64_t _ZNSt6chrono3_V212steady_clock3nowEv(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t nanoseconds = told((int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    tenken_test_note(syscall(SYS_gettid), nanoseconds);
    return nanoseconds;
}
