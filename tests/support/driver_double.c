/* A driver without a GPU, for libraries that ask for one even to move host memory: every address is the host's, and
 * copies are those of the host. It stands for libcuda.so.1 in tests of KvikIO, which takes all its symbols at once. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ok = 0, memory_type = 2 };

int cuInit(unsigned flags) { return (void)flags, ok; }
int cuDriverGetVersion(int *version) { return *version = 12040, ok; }
int cuDeviceGetCount(int *count) { return *count = 0, ok; }
int cuGetErrorName(int error, const char **name) { return (void)error, *name = "error", ok; }
int cuGetErrorString(int error, const char **text) { return (void)error, *text = "an error of the double", ok; }

/* As the real one does of an address that is not CUDA's: zeros, and no error. */
int cuPointerGetAttributes(unsigned count, const int *which, void **data, size_t pointer) {
    (void)pointer;
    for (unsigned i = 0; i < count; ++i) memset(data[i], 0, which[i] == memory_type ? sizeof(unsigned) : sizeof(void *));
    return ok;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    (void)flags;
    *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *memory == NULL ? 2 : ok;
}
int cuMemFreeHost(void *memory) { return free(memory), ok; }
int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream) {
    return (void)stream, memcpy(to, from, bytes), ok;
}
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    return cuMemcpyAsync(to, from, bytes, stream);
}
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream) {
    return cuMemcpyAsync(to, from, bytes, stream);
}

#define NOTHING(name) \
    int name(void) { return ok; }
NOTHING(cuPointerGetAttribute)
NOTHING(cuMemHostRegister_v2)
NOTHING(cuMemHostUnregister)
NOTHING(cuMemcpyBatchAsync)
NOTHING(cuMemGetAddressRange_v2)
NOTHING(cuCtxCreate_v2)
NOTHING(cuCtxCreate_v4)
NOTHING(cuCtxDestroy_v2)
NOTHING(cuCtxPushCurrent_v2)
NOTHING(cuCtxPopCurrent_v2)
NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxGetDevice)
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetAttribute)
NOTHING(cuDevicePrimaryCtxRetain)
NOTHING(cuDevicePrimaryCtxRelease_v2)
NOTHING(cuStreamSynchronize)
NOTHING(cuStreamCreate)
NOTHING(cuStreamDestroy_v2)
NOTHING(cuEventSynchronize)
NOTHING(cuEventCreate)
NOTHING(cuEventDestroy_v2)
NOTHING(cuEventRecord)
NOTHING(cuEventQuery)
NOTHING(cuLaunchHostFunc)
