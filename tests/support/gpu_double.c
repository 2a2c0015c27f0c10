/* Three GPUs that are none, for the counting of programs: put in front of a program with CUDA by LD_PRELOAD,
 * it stands for the CUDA runtime; named by TENKEN_NVML and TENKEN_NCCL it stands for these. Its memory is the
 * host's, its kernels do nothing (so a verification may fail: the figures are there nevertheless), and every
 * event takes it a time that it makes up and writes down beside what clock_log.c writes: elapsed times of
 * events as kind -1, calls of collectives as kind -2.
 *
 * Times are whole multiples of 2^-10 ms, which a float holds exactly: what is written down is that multiple.
 */
#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { gpus = 3, elapsed = -1, collective = -2 };
/* A link of the second GPU is down. */
static const unsigned active_links[gpus] = {18, 17, 18};

void tenken_test_note(int64_t kind, int64_t value);

static int current = 0;
static int64_t device_time = 0;

static void* memory_of(size_t bytes) {
    void* const memory =
        mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) abort();
    *(size_t*)memory = bytes + 4096;
    return (char*)memory + 4096;
}
static void give_back(void* memory) {
    if (memory == NULL) return;
    char* const begin = (char*)memory - 4096;
    munmap(begin, *(size_t*)begin);
}

/* What kernels would have computed is not there: large arrays are neither copied nor written, which would
 * take long. */
enum { truly = 1 << 20 };
static cudaError_t copy(void* to, const void* from, size_t bytes) {
    if (bytes <= truly) memmove(to, from, bytes);
    return cudaSuccess;
}
static cudaError_t set(void* to, int value, size_t bytes) {
    if (bytes <= truly) memset(to, value, bytes);
    return cudaSuccess;
}

struct CUevent_st {
    int64_t time;
};

/* The runtime. */
void** __cudaRegisterFatBinary(void* binary) {
    return (void**)binary;
}
void __cudaRegisterFatBinaryEnd(void** handle) {
    (void)handle;
}
void __cudaUnregisterFatBinary(void** handle) {
    (void)handle;
}
void __cudaRegisterFunction(void** handle, const char* function, char* device, const char* name, int limit,
                            void* tid, void* bid, void* block, void* grid, int* size) {
    (void)handle, (void)function, (void)device, (void)name, (void)limit, (void)tid, (void)bid, (void)block,
        (void)grid, (void)size;
}
void __cudaRegisterVar(void** handle, char* variable, char* address, const char* name, int ext, size_t size,
                       int constant, int global) {
    (void)handle, (void)variable, (void)address, (void)name, (void)ext, (void)size, (void)constant,
        (void)global;
}
static struct {
    dim3 grid, block;
    size_t shared;
    void* stream;
} pushed;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
    pushed.grid = grid, pushed.block = block, pushed.shared = shared, pushed.stream = stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared, *(void**)stream = pushed.stream;
    return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
    return (void)f, (void)grid, (void)block, (void)arguments, (void)shared, (void)stream, cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *f, void **arguments) {
    return (void)how, (void)f, (void)arguments, cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *f, enum cudaFuncAttribute a, int value) {
    return (void)f, (void)a, (void)value, cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* a, const void* f) {
    return (void)f, memset(a, 0, sizeof *a), cudaSuccess;
}
cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t e) {
    return (void)e, "error";
}
const char* cudaGetErrorString(cudaError_t e) {
    return (void)e, "an error of the double";
}
cudaError_t cudaDriverGetVersion(int* version) {
    return *version = CUDART_VERSION, cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    return *version = CUDART_VERSION, cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
    return *count = gpus, cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    return *device = current, cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return current = device, cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* p, int device) {
    memset(p, 0, sizeof *p);
    strcpy(p->name, "Double of a GPU");
    p->major = 9;
    p->multiProcessorCount = 132;
    p->totalGlobalMem = (size_t)64 << 30;
    p->l2CacheSize = 1 << 20;
    p->uuid.bytes[15] = (char)(device + 1);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr which, int device) {
    (void)device;
    *value = which == cudaDevAttrGlobalMemoryBusWidth ? 5120
             : which == cudaDevAttrMemoryClockRate    ? 2000000
             : which == cudaDevAttrClockRate          ? 1500000
             : which == cudaDevAttrManagedMemory      ? 1
                                                      : which == cudaDevAttrConcurrentManagedAccess;
    return cudaSuccess;
}
static const char* const address_of[gpus] = {"0000:1B:00.0", "0000:43:00.0", "0000:9D:00.0"};
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
    return strncpy(id, address_of[device], (size_t)size), cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* low, int* high) {
    return *low = 0, *high = -1, cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int one, int other) {
    return *can = one != other, cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned flags) {
    return (void)device, (void)flags, cudaSuccess;
}
cudaError_t cudaDeviceDisablePeerAccess(int device) {
    return (void)device, cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* left, size_t* all) {
    return *left = *all = (size_t)64 << 30, cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
    return *memory = memory_of(bytes), cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
    return *memory = memory_of(bytes), cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
    return (void)flags, *memory = memory_of(bytes), cudaSuccess;
}
cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned flags) {
    return (void)flags, *memory = memory_of(bytes), cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
    return give_back(memory), cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
    return give_back(memory), cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** there, void* here, unsigned flags) {
    return (void)flags, *there = here, cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n, enum cudaMemcpyKind k) {
    return (void)k, copy(to, from, n);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, enum cudaMemcpyKind k, cudaStream_t s) {
    return (void)k, (void)s, copy(to, from, n);
}
cudaError_t cudaMemcpyPeer(void* to, int a, const void* from, int b, size_t n) {
    return (void)a, (void)b, copy(to, from, n);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int a, const void* from, int b, size_t n, cudaStream_t s) {
    return (void)a, (void)b, (void)s, copy(to, from, n);
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t pitch, const void *from, size_t other, size_t width, size_t height,
                              enum cudaMemcpyKind k, cudaStream_t s) {
    (void)k, (void)s;
    for (size_t i = 0; i < height; ++i) memcpy((char *)to + i * pitch, (const char *)from + i * other, width);
    return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, size_t n) {
    return set(to, value, n);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t n, cudaStream_t s) {
    return (void)s, set(to, value, n);
}
cudaError_t cudaMemAdvise(const void* p, size_t n, enum cudaMemoryAdvise a, int d) {
    return (void)p, (void)n, (void)a, (void)d, cudaSuccess;
}
cudaError_t cudaMemPrefetchAsync(const void* p, size_t n, int d, cudaStream_t s) {
    return (void)p, (void)n, (void)d, (void)s, cudaSuccess;
}
cudaError_t cudaMemRangeGetAttribute(void* d, size_t s, enum cudaMemRangeAttribute a, const void* p,
                                     size_t n) {
    return (void)d, (void)s, (void)a, (void)p, (void)n, cudaErrorInvalidValue;
}

static int a_stream;
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int priority) {
    return (void)flags, (void)priority, *s = (cudaStream_t)&a_stream, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    return (void)s, cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    return (void)s, cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned f) {
    return (void)s, (void)e, (void)f, cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return *event = calloc(1, sizeof **event), *event == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return free(event), cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s) {
    static int64_t count = 0;
    (void)s;
    device_time += 100 + ++count * 7919 % 997; /* some 0.1 to 1.1 ms, hardly two alike nearby */
    event->time = device_time;
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
    const int64_t between = stop->time - start->time;
    tenken_test_note(elapsed, between);
    return *milliseconds = (float)between / 1024, cudaSuccess;
}

/* NVML: PCIe of generation 4 with 16 lanes, NVLinks of 25 GB/s to a switch. */
struct Field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, result;
    unsigned long long value;
};
static const int index_of[gpus] = {0, 1, 2};
int nvmlInit_v2(void) {
    return 0;
}
int nvmlShutdown(void) {
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, const void** device) {
    for (int i = 0; i < gpus; ++i) {
        if (strcmp(id, address_of[i]) == 0) return *device = &index_of[i], 0;
    }
    return 6;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    return (void)device, *milliwatts = 345678, 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* out) {
    return (void)device, *out = 4, 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* out) {
    return *out = *(int*)device == 2 ? 8 : 16, 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* out) {
    if (link >= 18) return 3;
    return *out = link < active_links[*(int*)device], 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
    return (void)device, (void)link, *type = 2, 0;
}
int nvmlDeviceGetFieldValues(void* device, int count, struct Field* fields) {
    (void)device;
    for (int i = 0; i < count; ++i) {
        fields[i].type = 3;
        fields[i].result = fields[i].id == 91 || fields[i].id == 90 ? 0 : 3;
        fields[i].value = fields[i].id == 91 ? 18 : 25000;
    }
    return 0;
}

/* NCCL: what is called is noted, and takes no time. */
int ncclGetVersion(int* version) {
    return *version = 22105, 0;
}
int ncclGetUniqueId(void* id) {
    return (void)id, 0;
}
int ncclCommInitRank(void** comm, int ranks, ...) {
    return (void)ranks, *comm = &a_stream, 0;
}
int ncclCommDestroy(void* comm) {
    return (void)comm, 0;
}
int ncclGroupStart(void) {
    return 0;
}
int ncclGroupEnd(void) {
    tenken_test_note(collective, 1);
    return 0;
}
int ncclAllReduce(void) {
    return 0;
}
int ncclAllGather(void) {
    return 0;
}
int ncclBroadcast(void) {
    return 0;
}
int ncclSend(void) {
    return 0;
}
int ncclRecv(void) {
    return 0;
}
const char* ncclGetErrorString(int code) {
    return (void)code, "an error of the double";
}
