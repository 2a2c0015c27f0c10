/* Three GPUs that are none, for the counting of programs: put in front of a program with CUDA by LD_PRELOAD,
 * it stands for the CUDA runtime, cuBLAS and cuSOLVER; named by TENKEN_NVML, TENKEN_NCCL and
 * TENKEN_CUFILE it stands for these. Its
 * memory is the host's, its kernels do nothing (so a verification may fail: the figures are there nevertheless), except
 * those that write, copy or compare small arrays of copied values, and every event takes it a time that it makes up
 * and writes down beside what recorder.c writes: elapsed times of events as kind -1, calls of collectives as
 * kind -2, and as kind -4 the bytes of each small copy from pinned memory that the CPU has written since the
 * GPU did.
 *
 * What $TENKEN_TEST_SLOW names is slow: with gpu1 every kernel, collective and copy of that GPU, with gpu0>gpu1 or
 * pinned>gpu0 copies that go this way. Each takes 10 s more: on its stream, then on whatever waits for it, streams by
 * events and the host. On the GPU that $TENKEN_TEST_SLOW_GPU names only the time between events is longer, so that no
 * other one waits for it. Events of two GPUs have no time between them.
 *
 * Times are whole multiples of 2^-10 ms, which a float holds exactly: what is written down is that multiple.
 */
#define _GNU_SOURCE
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cufile.h>
#include <cusolverDn.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { gpus = 3, elapsed = -1, collective = -2, by_cpu = -4 };
/* Steps in their order: copies as 256 times the kind of memory written plus that of the memory read, or that of the
 * memory set; access of a GPU to another one; records of events and the two of an elapsed time, by the time that they took; waiting for a GPU. */
enum { copied = -12, cleared = -13, event_recorded = -14, elapsed_from = -15, elapsed_to = -16, waited = -17, called = -18, prefetched = -21, of_library = -25, peer_access = -26, registered = -27,
       awaited = -28 };
enum { pageable, pinned_kind, by_host_alloc, managed, on_gpu = 16 };
/* A link of the second GPU is down. */
static const unsigned active_links[gpus] = {18, 17, 18};

void tenken_test_note(int64_t kind, int64_t value);
void tenken_test_step(int64_t kind, int64_t value);
void tenken_test_sized(int64_t kind, int64_t value, int64_t size, int64_t more);
int tenken_test_skipped(void);
int tenken_test_launched(const void* function, int64_t gpu, int64_t blocks, int64_t threads);
int64_t tenken_test_place(const void* function);
void tenken_test_pass(int64_t nanoseconds);

static _Thread_local int current = 0;
/* Of each GPU; a time of an event has its GPU above the 40 bits of the time. */
static int64_t device_time[gpus];

/* What is slow costs so many ticks each time. All times count these alone: until when a stream, a GPU and the host are
 * busy. */
enum { more = 10000 * 1024 };
struct CUstream_st {
    int gpu;
    int64_t busy;
};
static struct CUstream_st legacy[gpus] = {{0, 0}, {1, 0}, {2, 0}};
static int64_t busy_gpu[gpus];
static int64_t busy_host = 0;

static int is_slow(const char* from, const char* to) {
    const char* const slow = getenv("TENKEN_TEST_SLOW");
    char way[32];
    if (slow == NULL) return 0;
    snprintf(way, sizeof way, "%s>%s", from, to);
    return strcmp(slow, way) == 0 || strcmp(slow, from) == 0 || strcmp(slow, to) == 0;
}
static void enqueue_for(cudaStream_t s, int64_t ticks) {
    if (s == NULL) s = &legacy[current];
    if (s->busy < busy_host) s->busy = busy_host;
    s->busy += ticks;
    if (busy_gpu[s->gpu] < s->busy) busy_gpu[s->gpu] = s->busy;
}
static void enqueue(cudaStream_t s, int slow) {
    enqueue_for(s, slow ? more : 0);
}
/* A sensor's thread sleeps by the real clock: each pass lasts until it has read once more, however loaded the machine
 * is, and 5 ms while there is none. A thread that has just been started may be one. */
static volatile unsigned joules_read = 0;
static volatile int may_read = 0;
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
    int (*const create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
        (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(RTLD_NEXT, "pthread_create");
    may_read = 1;
    return create(thread, attributes, run, argument);
}
static void let_the_sensor_read(void) {
    const unsigned before = joules_read;
    for (int left = may_read ? 200 : 1; left > 0 && joules_read == before; --left) usleep(5000);
    may_read = joules_read != before;
}
static void pass_until(int64_t end) {
    if (end <= busy_host) return;
    if (getenv("TENKEN_TEST_JOULES") != NULL) let_the_sensor_read();
    tenken_test_pass((end - busy_host) * 15625 / 16); /* 2^-10 ms */
    busy_host = end;
}
static void wait_until(int64_t end) {
    tenken_test_step(waited, 0);
    pass_until(end);
}

/* Blocks of memory and their kinds. */
static struct {
    char* begin;
    size_t bytes;
    int kind;
} blocks[1 << 14];
static int count_of_blocks = 0;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static void* memory_of(size_t bytes, int kind) {
    void* const memory =
        mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) abort();
    *(size_t*)memory = bytes + 4096;
    pthread_mutex_lock(&blocks_lock);
    int i = 0;
    while (i < count_of_blocks && blocks[i].begin != NULL) ++i;
    if (i == (int)(sizeof blocks / sizeof *blocks)) abort();
    if (i == count_of_blocks) ++count_of_blocks;
    blocks[i].begin = memory, blocks[i].bytes = bytes + 4096, blocks[i].kind = kind;
    pthread_mutex_unlock(&blocks_lock);
    return (char*)memory + 4096;
}
static void give_back(void* memory) {
    if (memory == NULL) return;
    char* const begin = (char*)memory - 4096;
    pthread_mutex_lock(&blocks_lock);
    for (int i = 0; i < count_of_blocks; ++i) {
        if (blocks[i].begin == begin) blocks[i].begin = NULL;
    }
    pthread_mutex_unlock(&blocks_lock);
    munmap(begin, *(size_t*)begin);
}
static int kind_of(const void* memory) {
    const char* const at = memory;
    int kind = pageable;
    pthread_mutex_lock(&blocks_lock);
    for (int i = 0; i < count_of_blocks; ++i) {
        char* const begin = blocks[i].begin;
        if (begin != NULL && at >= begin && at < begin + blocks[i].bytes) kind = blocks[i].kind;
    }
    pthread_mutex_unlock(&blocks_lock);
    return kind;
}

/* What kernels would have computed is not there: large arrays are neither copied nor written, which would
 * take long. */
enum { truly = (4 << 20) + 4096 };

/* Pinned memory, and behind each block what the GPU left there last. */
static struct {
    char* begin;
    size_t bytes;
} pinned[64];
enum { max_pinned = sizeof pinned / sizeof *pinned };
static pthread_mutex_t pinned_lock = PTHREAD_MUTEX_INITIALIZER;

static void* pin(size_t bytes) {
    char* const memory = memory_of(2 * bytes, pinned_kind);
    int i = 0;
    pthread_mutex_lock(&pinned_lock);
    while (i < max_pinned && pinned[i].begin != NULL) ++i;
    if (i == max_pinned) abort();
    pinned[i].begin = memory, pinned[i].bytes = bytes;
    pthread_mutex_unlock(&pinned_lock);
    return memory;
}
static void unpin(const void* memory) {
    pthread_mutex_lock(&pinned_lock);
    for (int i = 0; i < max_pinned; ++i) {
        if (pinned[i].begin == memory) pinned[i].begin = NULL;
    }
    pthread_mutex_unlock(&pinned_lock);
}
static char* left_by_gpu(const void* memory, size_t bytes) {
    const char* const at = memory;
    char* found = NULL;
    pthread_mutex_lock(&pinned_lock);
    for (int i = 0; i < max_pinned && found == NULL; ++i) {
        char* const begin = pinned[i].begin;
        if (begin == NULL || at < begin || at + bytes > begin + pinned[i].bytes) continue;
        found = begin + pinned[i].bytes + (at - begin);
    }
    pthread_mutex_unlock(&pinned_lock);
    return found;
}

static const char* name_of(int kind) {
    static const char* const names[] = {"host", "pinned", "mapped", "managed"};
    static const char* const of_gpus[gpus] = {"gpu0", "gpu1", "gpu2"};
    return kind < on_gpu ? names[kind] : of_gpus[kind - on_gpu];
}
/* Which of the live arrays of a GPU it is (15: of none), and where in it, in units of 8 bytes. Those of the host are not
 * numbered: several threads make them. */
static int64_t array_of(const void* memory, int gpu, int64_t* place) {
    const char* const at = memory;
    int64_t number = 0, found = 15;
    if (gpu < 0) return 15;
    pthread_mutex_lock(&blocks_lock);
    for (int i = 0; i < count_of_blocks; ++i) {
        char* const begin = blocks[i].begin;
        if (begin == NULL || blocks[i].kind != on_gpu + gpu) continue;
        if (at >= begin && at < begin + blocks[i].bytes) found = number, *place = (at - begin - 4096) / 8;
        ++number;
    }
    pthread_mutex_unlock(&blocks_lock);
    return found < 15 ? found : 15;
}
/* The arrays that one call reads and writes, and the place in the one that it writes, or in the other. */
static int64_t arrays_of(const void* from, int from_gpu, const void* to, int to_gpu) {
    int64_t place = 0;
    const int64_t source = array_of(from, from_gpu, &place), target = array_of(to, to_gpu, &place);
    return source << 20 | target << 24 | place << 28;
}

static void copies(void* to, const void* from, size_t bytes, cudaStream_t s) {
    const int source = kind_of(from), target = kind_of(to);
    const int64_t arrays = arrays_of(from, source - on_gpu, to, target - on_gpu);
    tenken_test_sized(copied, 256 * target + source, (int64_t)bytes, arrays);
    enqueue(s, is_slow(name_of(source), name_of(target)));
}

/* A copy that $TENKEN_TEST_SKIPPED names leaves out this alone: what is verified to its end is noticed. */
enum { last_element = sizeof(double) };
static cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t s) {
    copies(to, from, bytes, s);
    if (tenken_test_skipped()) bytes -= bytes < last_element ? bytes : last_element;
    if (bytes > truly) return cudaSuccess;
    const char* const last = left_by_gpu(from, bytes);
    if (last != NULL && memcmp(last, from, bytes) != 0) tenken_test_note(by_cpu, (int64_t)bytes);
    memmove(to, from, bytes);
    char* const now = left_by_gpu(to, bytes);
    if (now != NULL) memcpy(now, from, bytes);
    return cudaSuccess;
}
static cudaError_t set(void* to, int value, size_t bytes) {
    tenken_test_sized(cleared, kind_of(to), (int64_t)bytes, 0);
    if (bytes <= truly) memset(to, value, bytes);
    return cudaSuccess;
}

struct CUevent_st {
    int64_t time, busy;
    int untimed;
};

/* The kernels of lib/cuda/verify.cuh, for the values of lib/base/copy_values.h and of p2p. */
struct values {
    double base;
    size_t whole;
};
static double value_of(size_t i, struct values of) {
    return i < of.whole ? of.base + (double)(i % 1021) / 1024 : 1 + of.base * DBL_EPSILON;
}
static void fill(void** arguments, struct values values) {
    double* const array = *(double**)arguments[0];
    const size_t elements = *(size_t*)arguments[1];
    if (elements * sizeof(double) > truly) return;
    for (size_t i = 0; i < elements; ++i) array[i] = value_of(i, values);
}
static void compare(void** arguments, struct values values) {
    const double* const array = *(double**)arguments[0];
    const size_t elements = *(size_t*)arguments[1];
    struct {
        double largest;
        unsigned long long first;
    }* const found = *(void**)arguments[4];
    if (elements * sizeof(double) > truly) return;
    for (size_t i = elements; i-- > 0;) {
        const double apart = fabs(array[i] - value_of(i, values));
        const double error = isnan(apart) ? HUGE_VAL : apart;
        if (error == 0) continue;
        if (error > found->largest) found->largest = error;
        found->first = i;
    }
}
/* sweep_kernel of lib/cuda/sweep.cuh for a copy */
static void copy_by_kernel(void** arguments, struct values values) {
    double* const to = *(double**)arguments[0];
    const double* const from = *(double**)arguments[1];
    const size_t bytes = *(size_t*)arguments[2] * sizeof(double);
    if (bytes > truly) return;
    memmove(to, from, bytes);
    char* const now = left_by_gpu(to, bytes);
    if (now != NULL) memcpy(now, from, bytes);
    (void)values;
}
static struct {
    const void* function;
    void (*what)(void**, struct values);
    int of_p2p; /* its values are such a struct, otherwise a number */
} kernels[64];
enum { max_kernels = sizeof kernels / sizeof *kernels };

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
    (void)handle, (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)size;
    void (*what)(void**, struct values) = NULL;
    const int of_p2p = strstr(name, "6ValuesE") != NULL && strstr(name, "p2p") != NULL;
    const int known = of_p2p || strstr(name, "CopyValues") != NULL;
    if (known && strstr(name, "fill_kernel") != NULL) what = fill;
    if (known && strstr(name, "compare_kernel") != NULL) what = compare;
    if (strstr(name, "sweep_kernel") != NULL && strstr(name, "6CopyOpE") != NULL) what = copy_by_kernel;
    for (int i = 0; what != NULL && i < max_kernels; ++i) {
        if (kernels[i].function != NULL) continue;
        kernels[i].function = function, kernels[i].what = what, kernels[i].of_p2p = of_p2p;
        break;
    }
}
void __cudaRegisterVar(void** handle, char* variable, char* address, const char* name, int ext, size_t size,
                       int constant, int global) {
    (void)handle, (void)variable, (void)address, (void)name, (void)ext, (void)size, (void)constant,
        (void)global;
}
static _Thread_local struct {
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
/* Kernels with their threads of a block, in the order of their first launch. With TENKEN_TEST_FAST the one of this
 * number takes 1 s, all others 2 s; with ~ behind it, twice in five times 10 s, and all others nothing. */
static struct {
    const void* function;
    unsigned threads, blocks, most_blocks;
    int times, last;
} shapes[1024];
static int launches = 0;
static pthread_mutex_t shapes_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t time_of(const void* f, dim3 grid, dim3 block) {
    const char* const fast = getenv("TENKEN_TEST_FAST");
    const unsigned threads = block.x * block.y * block.z, blocks = grid.x * grid.y * grid.z;
    int at = 0;
    if (fast == NULL) return 0;
    pthread_mutex_lock(&shapes_lock);
    while (shapes[at].times > 0 && (shapes[at].function != f || shapes[at].threads != threads)) ++at;
    shapes[at].function = f, shapes[at].threads = threads, shapes[at].blocks = blocks;
    if (blocks > shapes[at].most_blocks) shapes[at].most_blocks = blocks;
    const int fifth = ++shapes[at].times % 5, odd = strchr(fast, '~') != NULL && (fifth == 1 || fifth == 2);
    shapes[at].last = ++launches;
    pthread_mutex_unlock(&shapes_lock);
    return (at == atoi(fast) ? odd ? more : more / 10 : odd ? 0 : more / 5);
}
__attribute__((destructor)) static void write_shapes(void) {
    const char* const path = getenv("TENKEN_TEST_SHAPES");
    FILE* const file = path == NULL || shapes[0].times == 0 ? NULL : fopen(path, "w");
    for (int at = 0; file != NULL && shapes[at].times > 0; ++at)
        fprintf(file, "%lld %d %u %u\n", (long long)tenken_test_place(shapes[at].function), shapes[at].last,
                shapes[at].blocks, shapes[at].most_blocks);
    if (file != NULL) fclose(file);
}
/* Three dimensions in one number, and the bytes of shared memory above them. */
static int64_t packed(dim3 three, size_t bytes) {
    return (int64_t)bytes << 42 | (int64_t)three.z << 34 | (int64_t)three.y << 24 | three.x;
}
/* A stream, and an event on it, belong to the GPU that was current when it was made. */
static _Thread_local cudaError_t last_error = cudaSuccess;
static int on_another(cudaStream_t s) {
    if (s != NULL && s->gpu != current) last_error = cudaErrorInvalidResourceHandle;
    return s != NULL && s->gpu != current;
}
static cudaError_t launch(const void* f, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
    if (on_another(stream)) return last_error;
    const int skipped = tenken_test_launched(f, current, packed(grid, 0), packed(block, shared));
    enqueue_for(stream, is_slow(name_of(on_gpu + current), "") ? more : time_of(f, grid, block));
    for (int i = 0; i < max_kernels; ++i) {
        if (kernels[i].function != f || f == NULL) continue;
        const size_t fewer = skipped ? *(size_t*)arguments[2] - 1 : 0;
        if (skipped && kernels[i].what == copy_by_kernel) copy_by_kernel((void*[]){arguments[0], arguments[1], (void*)&fewer}, (struct values){0, 0});
        if (skipped) continue;
        const struct values plain = {*(int*)arguments[2], SIZE_MAX};
        kernels[i].what(arguments, kernels[i].of_p2p ? *(struct values*)arguments[2] : plain);
    }
    return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
    return launch(f, grid, block, arguments, shared, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* how, const void* f, void** arguments) {
    return launch(f, how->gridDim, how->blockDim, arguments, how->dynamicSmemBytes, how->stream);
}
cudaError_t cudaFuncSetAttribute(const void* f, enum cudaFuncAttribute a, int value) {
    return (void)f, (void)a, (void)value, cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* a, const void* f) {
    return (void)f, memset(a, 0, sizeof *a), cudaSuccess;
}
cudaError_t cudaGetLastError(void) {
    const cudaError_t error = last_error;
    return last_error = cudaSuccess, error;
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

/* With TENKEN_TEST_OWN_GPU, each rank of a node sees one GPU only, as its first: the number of those before it, a digit
 * for each rank. */
static int hidden(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK"), *own = getenv("TENKEN_TEST_OWN_GPU");
    return own && rank ? own[atoi(rank)] - '0' : 0;
}
/* What the second rank lacks: its GPU or its NCCL. */
static int lacks(const char* what) {
    const char *rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK"), *lacking = getenv("TENKEN_TEST_LACKS");
    return rank && lacking && strcmp(rank, "1") == 0 && strcmp(lacking, what) == 0;
}
__attribute__((constructor)) static void without_nccl(void) {
    if (lacks("nccl")) setenv("TENKEN_NCCL", "/nowhere/libnccl.so.2", 1);
}
cudaError_t cudaGetDeviceCount(int* count) {
    if (lacks("gpu")) return *count = 0, cudaErrorNoDevice;
    return *count = getenv("TENKEN_TEST_OWN_GPU") ? 1 : gpus, cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    return *device = current, cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return current = device, cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
    return wait_until(busy_gpu[current]), cudaSuccess;
}
enum { all_multiprocessors = 132 };
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* p, int device) {
    memset(p, 0, sizeof *p);
    strcpy(p->name, "Double of a GPU");
    const char* const older = getenv("TENKEN_TEST_OLDER_GPU");
    p->major = older && atoi(older) == device ? 7 : 9;
    p->multiProcessorCount = all_multiprocessors;
    p->totalGlobalMem = (size_t)64 << 30;
    p->l2CacheSize = 1 << 20;
    p->uuid.bytes[15] = (char)(hidden() + device + 1);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr which, int device) {
    (void)device;
    *value = which == cudaDevAttrGlobalMemoryBusWidth ? 5120
             : which == cudaDevAttrMemoryClockRate    ? 2000000
             : which == cudaDevAttrClockRate          ? 1500000
             : which == cudaDevAttrMultiProcessorCount ? all_multiprocessors
             : which == cudaDevAttrMaxSharedMemoryPerBlockOptin     ? 227 << 10
             : which == cudaDevAttrMaxSharedMemoryPerMultiprocessor ? 228 << 10
             : which == cudaDevAttrManagedMemory      ? 1
                                                      : which == cudaDevAttrConcurrentManagedAccess;
    return cudaSuccess;
}
static const char* const address_of[gpus] = {"0000:1B:00.0", "0000:43:00.0", "0000:9D:00.0"};
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
    return strncpy(id, address_of[hidden() + device], (size_t)size), cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* low, int* high) {
    return *low = 0, *high = -1, cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int one, int other) {
    return *can = one != other, cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int device, unsigned flags) {
    tenken_test_step(peer_access, 16 * current + device);
    return (void)flags, cudaSuccess;
}
cudaError_t cudaDeviceDisablePeerAccess(int device) {
    return (void)device, cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* left, size_t* all) {
    return *left = *all = (size_t)64 << 30, cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
    return *memory = memory_of(bytes, on_gpu + current), cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
    return *memory = pin(bytes), cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
    return (void)flags, *memory = memory_of(bytes, by_host_alloc), cudaSuccess;
}
cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned flags) {
    return (void)flags, *memory = memory_of(bytes, managed), cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
    return give_back(memory), cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
    return unpin(memory), give_back(memory), cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** there, void* here, unsigned flags) {
    return (void)flags, *there = here, cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t n, enum cudaMemcpyKind k) {
    (void)k, copy(to, from, n, NULL);
    return pass_until(legacy[current].busy), cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t n, enum cudaMemcpyKind k, cudaStream_t s) {
    return (void)k, copy(to, from, n, s);
}
/* may return before it is done */
cudaError_t cudaMemcpyPeer(void* to, int a, const void* from, int b, size_t n) {
    return (void)a, (void)b, copy(to, from, n, NULL);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int a, const void* from, int b, size_t n, cudaStream_t s) {
    return (void)a, (void)b, copy(to, from, n, s);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t pitch, const void* from, size_t other, size_t width,
                              size_t height, enum cudaMemcpyKind k, cudaStream_t s) {
    (void)k, copies(to, from, width * height, s);
    for (size_t i = 0; i < height; ++i) memcpy((char*)to + i * pitch, (const char*)from + i * other, width);
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
    tenken_test_sized(prefetched, d == cudaCpuDeviceId ? pageable : on_gpu + d, (int64_t)n, 0);
    return (void)p, (void)s, cudaSuccess;
}
cudaError_t cudaMemRangeGetAttribute(void* d, size_t s, enum cudaMemRangeAttribute a, const void* p,
                                     size_t n) {
    return (void)d, (void)s, (void)a, (void)p, (void)n, cudaErrorInvalidValue;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int priority) {
    (void)flags, (void)priority, *s = calloc(1, sizeof **s);
    if (*s != NULL) (*s)->gpu = current;
    return *s == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
    return free(s), cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    return wait_until(s == NULL ? legacy[current].busy : s->busy), cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    return wait_until(e->busy), cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned f) {
    if (s == NULL) s = &legacy[current];
    if (s->busy < e->busy) s->busy = e->busy;
    tenken_test_step(awaited, 0);
    return (void)f, enqueue(s, 0), cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return *event = calloc(1, sizeof **event), *event == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    const cudaError_t made = cudaEventCreate(event);
    if (made == cudaSuccess) (*event)->untimed = (flags & cudaEventDisableTiming) != 0;
    return made;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return free(event), cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t s) {
    static int64_t count = 0;
    if (on_another(s)) return last_error;
    if (s == NULL) s = &legacy[current];
    if (event->untimed) return enqueue(s, 0), event->busy = s->busy, cudaSuccess;
    /* some 0.1 to 1.1 ms, hardly two alike nearby; where the host's time is made up too, hardly two alike at all */
    const int64_t times = getenv("TENKEN_TEST_STEP") == NULL ? 997 : 399989;
    const char* const slow = getenv("TENKEN_TEST_SLOW_GPU");
    ++count;
    device_time[current] += (slow != NULL && atoi(slow) == current ? 2 * times : 0) + 100 + count * (times == 997 ? 7919 : count * 7919 % times + 104729) % times;
    enqueue(s, 0);
    event->busy = s->busy;
    event->time = (int64_t)current << 40 | (device_time[current] + event->busy);
    tenken_test_note(event_recorded, event->time);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
    const int64_t between = stop->time - start->time;
    if (start->time >> 40 != stop->time >> 40) return cudaErrorInvalidResourceHandle;
    tenken_test_note(elapsed_from, start->time);
    tenken_test_note(elapsed_to, stop->time);
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
/* With TENKEN_TEST_JOULES each reading of the counter is 1 kJ more, and degrees are the readings so far. */
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
    if (getenv("TENKEN_TEST_JOULES") == NULL) return 3;
    return (void)device, *millijoules = 1000000ull * ++joules_read, 0;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* degrees) {
    if (getenv("TENKEN_TEST_JOULES") == NULL) return 3;
    return (void)device, *degrees = joules_read, sensor;
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

/* NCCL: what is called is noted; each call takes the time of its own GPU, so that who waits for one alone is seen. */
int ncclGetVersion(int* version) {
    return *version = 22105, 0;
}
int ncclGetUniqueId(void* id) {
    return (void)id, 0;
}
int ncclCommInitRank(void** comm, int ranks, ...) {
    const char* const report = getenv("NCCL_DEBUG_FILE");
    const char* const told = getenv("TENKEN_TEST_NCCL_REPORT");
    FILE* const file = report != NULL && told != NULL ? fopen(report, "w") : NULL;
    if (file != NULL) {
        fputs(told, file);
        fclose(file);
    }
    return (void)ranks, *comm = legacy, 0;
}
int ncclCommDestroy(void* comm) {
    return (void)comm, 0;
}
int ncclMemAlloc(void** memory, size_t bytes) {
    return (int)cudaMalloc(memory, bytes);
}
int ncclMemFree(void* memory) {
    return (int)cudaFree(memory);
}
int ncclGroupStart(void) {
    return 0;
}
int ncclGroupEnd(void) {
    tenken_test_note(collective, 1);
    return 0;
}
static int of_gpu(int call, const void* from, const void* to, size_t n, int type, int how, cudaStream_t s) {
    tenken_test_sized(called, call, (int64_t)n, type | how << 16 | arrays_of(from, s->gpu, to, s->gpu));
    return enqueue(s, is_slow(name_of(on_gpu + s->gpu), "")), 0;
}
int ncclAllReduce(const void* from, void* to, size_t n, int type, int how, void* comm, cudaStream_t s) {
    return (void)comm, of_gpu(0, from, to, n, type, how, s);
}
int ncclAllGather(const void* from, void* to, size_t n, int type, void* comm, cudaStream_t s) {
    return (void)comm, of_gpu(1, from, to, n, type, 0, s);
}
int ncclReduceScatter(const void* from, void* to, size_t n, int type, int how, void* comm, cudaStream_t s) {
    return (void)comm, of_gpu(2, from, to, n, type, how, s);
}
int ncclBroadcast(const void* from, void* to, size_t n, int type, int root, void* comm, cudaStream_t s) {
    return (void)root, (void)comm, of_gpu(3, from, to, n, type, 0, s);
}
int ncclSend(const void* from, size_t n, int type, int peer, void* comm, cudaStream_t s) {
    return (void)comm, of_gpu(4, from, NULL, n, type | (peer + 1) << 8, 0, s);
}
int ncclRecv(void* to, size_t n, int type, int peer, void* comm, cudaStream_t s) {
    return (void)comm, of_gpu(5, NULL, to, n, type | (peer + 1) << 8, 0, s);
}
const char* ncclGetErrorString(int code) {
    return (void)code, "an error of the double";
}

/* cuBLAS and cuSOLVER: products and solvers of these names are noted with their sizes and compute nothing. What only
 * describes a product is the library's own, where the program has it. */
#pragma weak cublasLtMatrixLayoutGetAttribute
enum { dgemm, dgemm_batched, sgemm, gemm_ex, dtrsm, strsm, dtrsv, dgemv, sgemv, getrf, getrs, matmul, multiprocessors };
static cublasStatus_t of_blas(int call, int64_t m, int64_t n, int64_t k, cudaStream_t s) {
    if (on_another(s)) return CUBLAS_STATUS_EXECUTION_FAILED;
    tenken_test_sized(of_library, call, m | n << 32, k);
    return enqueue(s, is_slow(name_of(on_gpu + s->gpu), "")), CUBLAS_STATUS_SUCCESS;
}
/* A handle is where its stream is kept. */
cublasStatus_t cublasCreate(cublasHandle_t* h) {
    return *h = calloc(1, sizeof(cudaStream_t)), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t h) {
    return free(h), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s) {
    return *(cudaStream_t*)h = s, CUBLAS_STATUS_SUCCESS;
}
static cudaStream_t stream_of(void* h) {
    cudaStream_t const s = *(cudaStream_t*)h;
    return s == NULL ? &legacy[current] : s;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t h, void* memory, size_t bytes) {
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode) {
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetSmCountTarget(cublasHandle_t h, int count) {
    return of_blas(multiprocessors, count, 0, 0, stream_of(h));
}
cublasStatus_t cublasDgemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                           const double* alpha, const double* a, int lda, const double* b, int ldb,
                           const double* beta, double* c, int ldc) {
    return of_blas(dgemm, m, n, k, stream_of(h));
}
cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n,
                                         int k, const double* alpha, const double* a, int lda, long long sa,
                                         const double* b, int ldb, long long sb, const double* beta, double* c,
                                         int ldc, long long sc, int count) {
    return of_blas(dgemm_batched, m, n, k, stream_of(h));
}
cublasStatus_t cublasSgemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                           const float* alpha, const float* a, int lda, const float* b, int ldb, const float* beta,
                           float* c, int ldc) {
    return of_blas(sgemm, m, n, k, stream_of(h));
}
cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                            const void* alpha, const void* a, cudaDataType of_a, int lda, const void* b,
                            cudaDataType of_b, int ldb, const void* beta, void* c, cudaDataType of_c, int ldc,
                            cublasComputeType_t how, cublasGemmAlgo_t which) {
    return of_blas(gemm_ex, m, n, k, stream_of(h));
}
cublasStatus_t cublasDtrsm(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill_mode, cublasOperation_t ta,
                           cublasDiagType_t diagonal, int m, int n, const double* alpha, const double* a, int lda,
                           double* b, int ldb) {
    return of_blas(dtrsm, m, n, 0, stream_of(h));
}
cublasStatus_t cublasStrsm(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t fill_mode, cublasOperation_t ta,
                           cublasDiagType_t diagonal, int m, int n, const float* alpha, const float* a, int lda,
                           float* b, int ldb) {
    return of_blas(strsm, m, n, 0, stream_of(h));
}
cublasStatus_t cublasDtrsv(cublasHandle_t h, cublasFillMode_t fill_mode, cublasOperation_t ta,
                           cublasDiagType_t diagonal, int n, const double* a, int lda, double* x, int step) {
    return of_blas(dtrsv, n, 1, 0, stream_of(h));
}
cublasStatus_t cublasDgemv(cublasHandle_t h, cublasOperation_t ta, int m, int n, const double* alpha, const double* a,
                           int lda, const double* x, int step_x, const double* beta, double* y, int step_y) {
    return of_blas(dgemv, m, n, 0, stream_of(h));
}
cublasStatus_t cublasSgemv(cublasHandle_t h, cublasOperation_t ta, int m, int n, const float* alpha, const float* a,
                           int lda, const float* x, int step_x, const float* beta, float* y, int step_y) {
    return of_blas(sgemv, m, n, 0, stream_of(h));
}
/* Two algorithms are proposed for each product, or as many as $TENKEN_TEST_ALGORITHMS has times, in ms, which a product
 * by each of them takes: a step of matmul has its number beside k. */
static int proposals(void) {
    int count = 0;
    const char* next = getenv("TENKEN_TEST_ALGORITHMS");
    if (next == NULL) return 2;
    for (; *next != 0; next += strcspn(next, " "), next += *next != 0) ++count;
    return count;
}
static int64_t ticks_of(int64_t number) {
    const char* next = getenv("TENKEN_TEST_ALGORITHMS");
    if (next == NULL) return 0;
    while (--number > 0) next += strcspn(next, " ") + 1;
    return 1024 * atoll(next);
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
    return *h = calloc(1, sizeof(cudaStream_t)), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
    return free(h), CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t what, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t* results, int* count) {
    *count = wanted < proposals() ? wanted : proposals();
    memset(results, 0, (size_t)*count * sizeof *results);
    for (int i = 0; i < *count; ++i) results[i].algo.data[0] = (uint64_t)i + 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                 cublasLtMatmulAlgoCapAttributes_t what, void* value, size_t bytes,
                                                 size_t* written) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t what, void* value,
                                                    size_t bytes, size_t* written) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t what, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t of_a, const void* b, cublasLtMatrixLayout_t of_b,
                              const void* beta, const void* c, cublasLtMatrixLayout_t of_c, void* d,
                              cublasLtMatrixLayout_t of_d, const cublasLtMatmulAlgo_t* algorithm, void* memory,
                              size_t bytes, cudaStream_t s) {
    uint64_t m = 0, n = 0, rows = 0, columns = 0;
    size_t written = 0;
    cublasLtMatrixLayoutGetAttribute(of_d, CUBLASLT_MATRIX_LAYOUT_ROWS, &m, sizeof m, &written);
    cublasLtMatrixLayoutGetAttribute(of_d, CUBLASLT_MATRIX_LAYOUT_COLS, &n, sizeof n, &written);
    cublasLtMatrixLayoutGetAttribute(of_a, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows, &written);
    cublasLtMatrixLayoutGetAttribute(of_a, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns, &written);
    enqueue_for(s, ticks_of((int64_t)algorithm->data[0]));
    return of_blas(matmul, (int64_t)m, (int64_t)n, (int64_t)(rows * columns / m | algorithm->data[0] << 32), s);
}

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* h) {
    return *h = calloc(1, sizeof(cudaStream_t)), CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t h) {
    return free(h), CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t h, cudaStream_t s) {
    return *(cudaStream_t*)h = s, CUSOLVER_STATUS_SUCCESS;
}
static cusolverStatus_t of_solver(int call, int64_t m, int64_t n, void* h) {
    return of_blas(call, m, n, 0, stream_of(h)) == CUBLAS_STATUS_SUCCESS ? CUSOLVER_STATUS_SUCCESS
                                                                          : CUSOLVER_STATUS_EXECUTION_FAILED;
}
cusolverStatus_t cusolverDnDgetrf_bufferSize(cusolverDnHandle_t h, int m, int n, double* a, int lda, int* size) {
    return *size = 1, CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDgetrf(cusolverDnHandle_t h, int m, int n, double* a, int lda, double* work, int* pivots,
                                  int* info) {
    return of_solver(getrf, m, n, h);
}
cusolverStatus_t cusolverDnDgetrs(cusolverDnHandle_t h, cublasOperation_t ta, int n, int columns, const double* a,
                                  int lda, const int* pivots, double* b, int ldb, int* info) {
    return of_solver(getrs, n, columns, h);
}
cusolverStatus_t cusolverDnSgetrf_bufferSize(cusolverDnHandle_t h, int m, int n, float* a, int lda, int* size) {
    return *size = 1, CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSgetrf(cusolverDnHandle_t h, int m, int n, float* a, int lda, float* work, int* pivots,
                                  int* info) {
    return of_solver(getrf, m, n, h);
}
cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t* p) {
    return *p = calloc(1, sizeof(cudaStream_t)), CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t p) {
    return free(p), CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n,
                                             cudaDataType of_a, const void* a, int64_t lda, cudaDataType how,
                                             size_t* on_device, size_t* on_host) {
    return *on_device = *on_host = 1, CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n,
                                  cudaDataType of_a, void* a, int64_t lda, int64_t* pivots, cudaDataType how,
                                  void* device_work, size_t on_device, void* host_work, size_t on_host, int* info) {
    return of_solver(getrf, m, n, h);
}

/* cuFile with GPUDirect Storage: what it moves are reads and writes of a file, and no copies. A handle is a descriptor. */
static CUfileError_t fine(void) {
    return (CUfileError_t){CU_FILE_SUCCESS, CUDA_SUCCESS};
}
CUfileError_t cuFileDriverOpen(void) {
    return fine();
}
CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* properties) {
    return memset(properties, 0, sizeof *properties), fine();
}
CUfileError_t cuFileHandleRegister(CUfileHandle_t* handle, CUfileDescr_t* of) {
    fcntl(of->handle.fd, F_SETFL, 0); /* blocks of any size */
    return *handle = (void*)(intptr_t)of->handle.fd, fine();
}
void cuFileHandleDeregister(CUfileHandle_t handle) {
    (void)handle;
}
CUfileError_t cuFileBufRegister(const void* base, size_t bytes, int flags) {
    tenken_test_sized(registered, kind_of(base), (int64_t)bytes, 0);
    return (void)flags, fine();
}
CUfileError_t cuFileBufDeregister(const void* base) {
    return (void)base, fine();
}
/* It may move less than it was asked for. */
enum { at_most = 160 << 10 };
ssize_t cuFileRead(CUfileHandle_t handle, void* base, size_t bytes, off_t offset, off_t at) {
    return pread((int)(intptr_t)handle, (char*)base + at, bytes < at_most ? bytes : at_most, offset);
}
ssize_t cuFileWrite(CUfileHandle_t handle, const void* base, size_t bytes, off_t offset, off_t at) {
    return pwrite((int)(intptr_t)handle, (const char*)base + at, bytes < at_most ? bytes : at_most, offset);
}
CUfileError_t cuFileWriteAsync(CUfileHandle_t handle, void* base, size_t* bytes, off_t* offset, off_t* at,
                               ssize_t* written, CUstream s) {
    return (void)s, *written = pwrite((int)(intptr_t)handle, (const char*)base + *at, *bytes, *offset), fine();
}
