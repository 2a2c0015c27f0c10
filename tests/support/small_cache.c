/* A machine with small caches: put in front of a program, every cache of the kernel's list has the size that
 * the file $TENKEN_TEST_CACHE holds, and $TENKEN_TEST_MEMORY stands for /proc/meminfo. Arrays are at least four times the last-level cache, which is 260 MiB on
 * some servers: tests of counts and protocols need no arrays of 1 GiB. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* instead(const char* path) {
    static const char folder[] = "/sys/devices/system/cpu/cpu", name[] = "/size";
    const char* const file = getenv("TENKEN_TEST_CACHE");
    const char* const memory = getenv("TENKEN_TEST_MEMORY");
    const size_t length = strlen(path);
    if (memory != NULL && strcmp(path, "/proc/meminfo") == 0) return memory;
    if (file == NULL || strncmp(path, folder, sizeof folder - 1) != 0 || strstr(path, "/cache/index") == NULL)
        return path;
    return length > sizeof name && strcmp(path + length - (sizeof name - 1), name) == 0 ? file : path;
}

FILE* fopen64(const char* path, const char* mode) {
    static FILE* (*next)(const char*, const char*);
    if (next == NULL) next = (FILE * (*)(const char*, const char*)) dlsym(RTLD_NEXT, "fopen64");
    return next(instead(path), mode);
}

FILE* fopen(const char* path, const char* mode) {
    return fopen64(path, mode);
}
