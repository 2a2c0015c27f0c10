/* Preloaded into the job of a campaign: programs of the suite are really slower on one node, whatever they measure on
   the host. Each time the main thread looks at the clock, it has slept (or, for short times, waited) for as long as it
   took since it last looked, times SLOW_FACTOR - 1. SLOW_NODE: the node. With STANDIN_NODE the host is called so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static int (*real)(clockid_t, struct timespec *);
static double factor = -1, last;

static double seconds(void) {
    struct timespec t;
    real(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double slowness(void) {
    char path[4096];
    const char *node = getenv("TENKEN_ON_NODE"), *slow = getenv("SLOW_NODE"), *times = getenv("SLOW_FACTOR");
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0 || !node || !slow || !times || strcmp(node, slow)) return 1;
    path[size] = 0;
    return strstr(path, "/made/bin/") ? atof(times) : 1;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (clock == CLOCK_MONOTONIC && syscall(SYS_gettid) == getpid()) {
        if (factor < 0) factor = slowness();
        if (factor > 1) {
            double now = seconds(), more = last > 0 ? (now - last) * (factor - 1) : 0;
            if (more > 20) more = 20;
            if (more > 2e-4) {
                struct timespec wait = {(time_t)more, (long)(1e9 * (more - (time_t)more))};
                nanosleep(&wait, 0);
            }
            while (seconds() < now + more) {
            }
            last = seconds();
        }
    }
    return real(clock, out);
}

int uname(struct utsname *out) {
    int status = syscall(SYS_uname, out);
    const char *node = getenv("STANDIN_NODE");
    if (!status && node) strncpy(out->nodename, node, sizeof out->nodename - 1);
    return status;
}

int gethostname(char *name, size_t size) {
    struct utsname own;
    if (uname(&own)) return -1;
    strncpy(name, own.nodename, size);
    return 0;
}
