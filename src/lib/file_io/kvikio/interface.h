/* What the library that calls KvikIO offers to who loads it: KvikIO itself is C++20 and has no C interface.
 */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { file_io_kvikio_interface = 1 };

/* A text is empty, or says what went wrong, and lives until the next call of the same thread. */
struct FileIoKvikio {
    int interface; /* file_io_kvikio_interface */
    const char* version;
    /* Threads of its pool, and bytes that one of them moves at a time. */
    const char* (*prepare)(unsigned threads, size_t task_bytes);
    /* Opens a file that exists, for reading and writing or for reading alone. */
    const char* (*open)(const char* path, int to_write, void** handle);
    void (*close)(void* handle);
    /* Whether its bytes go by cuFile; else KvikIO copies by itself. */
    int (*by_cufile)(void* handle);
    /* Begins to move between memory of a GPU, or of the host, and a part of the file; several may be under
     * way. */
    const char* (*begin)(void* handle, int to_write, void* memory, size_t bytes, size_t offset);
    /* Waits for all that has begun. */
    const char* (*finish)(void* handle);
};

/* The name under which it is found. */
const struct FileIoKvikio* file_io_kvikio(void);

#ifdef __cplusplus
}
#endif
