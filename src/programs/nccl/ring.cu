#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "lib/cuda/peer.h"
#include "lib/cuda/verify.cuh"
#include "programs/nccl/ring.h"

#define TENKEN_NCCL(call) library_.check(library_.call, #call)

namespace nccl {

namespace {

using tenken::cuda::CurrentGpu;

/// What a rank sends. In FP64 different for adjacent elements and between ranks. A sum must be exact in any
/// order, and BF16 has 8 bits, so only 1 to 3 of at most 64 ranks contribute to each element, and others to
/// the next one.
struct Sent {
    bool fp64;
    int ranks;
    int pattern;

    __host__ __device__ int groups() const { return (ranks + 63) / 64; }
    __host__ __device__ double small(std::size_t i, int place) const {
        return 1 + static_cast<int>((i + static_cast<std::size_t>(place + pattern)) % 3);
    }
    __host__ __device__ double operator()(int rank, std::size_t i) const {
        if (fp64) return 1.0 + pattern + 4.0 * rank + static_cast<double>(i % 1021) / 1024.0;
        const auto own = static_cast<int>(i % static_cast<std::size_t>(groups()));
        return rank % groups() == own ? small(i, rank / groups()) : 0;
    }
    /// The sum over all ranks.
    __host__ __device__ double sum(std::size_t i) const {
        const double n = ranks;
        if (fp64)
            return n * (1.0 + pattern) + 2.0 * n * (n - 1) + n * (static_cast<double>(i % 1021) / 1024.0);
        const auto own = static_cast<int>(i % static_cast<std::size_t>(groups()));
        const int places = (ranks - own + groups() - 1) / groups();
        double total = places / 3 * 6;  // three in a row are 1, 2 and 3 in some order
        for (int place = places / 3 * 3; place < places; ++place) total += small(i, place);
        return total;
    }
};

/// The value that a rank sends or receives at element i; `each`: elements of one rank's part.
struct Buffer {
    Sent sent;
    Operation operation;
    bool received;
    int rank;
    std::size_t each;

    __host__ __device__ double operator()(std::size_t i) const {
        if (!received) return sent(rank, i);
        switch (operation) {
            case Operation::all_reduce:
                return sent.sum(i);
            case Operation::reduce_scatter:
                return sent.sum(static_cast<std::size_t>(rank) * each + i);
            case Operation::all_gather:
                return sent(static_cast<int>(i / each), i % each);
            case Operation::alltoall:
                return sent(static_cast<int>(i / each), static_cast<std::size_t>(rank) * each + i % each);
            case Operation::sendrecv:
                break;
        }
        return sent((rank + sent.ranks - 1) % sent.ranks, i);
    }
};

/// The bits of a value in a type that represents it exactly.
template <typename Word>
__host__ __device__ Word bits_of(double value);
template <>
__host__ __device__ std::uint64_t bits_of<std::uint64_t>(double value) {
    std::uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
template <>
__host__ __device__ std::uint32_t bits_of<std::uint32_t>(double value) {
    const auto single = static_cast<float>(value);
    std::uint32_t bits = 0;
    memcpy(&bits, &single, sizeof bits);
    return bits;
}
template <>
__host__ __device__ std::uint16_t bits_of<std::uint16_t>(double value) {
    return static_cast<std::uint16_t>(bits_of<std::uint32_t>(value) >> 16);  // BF16: the upper half of FP32
}

double value_of(std::uint64_t bits) {
    return tenken::double_of_bits(bits);
}
double value_of(std::uint32_t bits) {
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
}
double value_of(std::uint16_t bits) {
    return value_of(static_cast<std::uint32_t>(bits) << 16);
}

template <typename Word>
__global__ void write_bits(char* array, std::size_t stride, std::size_t elements, Buffer values) {
    Word* const window = reinterpret_cast<Word*>(array + blockIdx.y * stride);
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < elements;
         i += step) {
        window[i] = bits_of<Word>(values(i));
    }
}

/// Position of the first wrong word of the windows, in bytes from the start of the array.
template <typename Word>
__global__ void compare_bits(const char* array, std::size_t stride, std::size_t elements, Buffer values,
                             unsigned long long* first) {
    const Word* const window = reinterpret_cast<const Word*>(array + blockIdx.y * stride);
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < elements;
         i += step) {
        if (window[i] == bits_of<Word>(values(i))) continue;
        atomicMin(first, static_cast<unsigned long long>(blockIdx.y * stride + i * sizeof(Word)));
    }
}

dim3 blocks(std::size_t elements, long windows) {
    return dim3(tenken::cuda::verify_blocks(elements), static_cast<unsigned>(windows));
}

template <typename Word>
void write(char* array, std::size_t stride, long windows, std::size_t elements, const Buffer& values,
           const tenken::cuda::Stream& stream) {
    write_bits<Word><<<blocks(elements, windows), tenken::cuda::verify_threads, 0, stream.get()>>>(
        array, stride, elements, values);
    TENKEN_CUDA(cudaGetLastError());
}

template <typename Word>
tenken::ErrorScan compared(const char* array, std::size_t stride, long windows, std::size_t elements,
                           const Buffer& values, const tenken::cuda::Stream& stream) {
    tenken::cuda::DeviceArray<unsigned long long> found(1);
    unsigned long long first = ~0ULL;
    TENKEN_CUDA(cudaMemcpyAsync(found.data(), &first, sizeof first, cudaMemcpyHostToDevice, stream.get()));
    compare_bits<Word><<<blocks(elements, windows), tenken::cuda::verify_threads, 0, stream.get()>>>(
        array, stride, elements, values, found.data());
    TENKEN_CUDA(cudaGetLastError());
    TENKEN_CUDA(cudaMemcpyAsync(&first, found.data(), sizeof first, cudaMemcpyDeviceToHost, stream.get()));
    stream.synchronize();
    tenken::ErrorScan scan(0);
    if (first == ~0ULL) return scan;
    Word bits = 0;
    TENKEN_CUDA(cudaMemcpy(&bits, array + first, sizeof bits, cudaMemcpyDefault));
    const std::size_t i = first % stride / sizeof bits;
    scan.compare(i, value_of(bits), values(i));
    // different bits for an equal value are wrong too: -0 for 0
    if (scan.passed()) scan.compare(i, std::numeric_limits<double>::quiet_NaN(), values(i));
    return scan;
}

template <typename Word>
void flip(char* array) {
    Word bits = 0;
    TENKEN_CUDA(cudaMemcpy(&bits, array, sizeof bits, cudaMemcpyDefault));
    bits = static_cast<Word>(bits ^ 1u);
    TENKEN_CUDA(cudaMemcpy(array, &bits, sizeof bits, cudaMemcpyDefault));
}

/// Memory of the current GPU.
std::shared_ptr<char> allocated(const Library& library, std::size_t bytes) {
    if (library.mem_alloc == nullptr) {
        const auto array = std::make_shared<tenken::cuda::DeviceArray<char>>(bytes);
        return {array, array->data()};
    }
    void* found = nullptr;
    library.check(library.mem_alloc(&found, bytes), "mem_alloc");
    return {static_cast<char*>(found), library.mem_free};
}

/// NCCL's code of a type.
int code(Type type) {
    return type == Type::fp64 ? float64 : type == Type::fp32 ? float32 : bfloat16;
}

/// Elements that a rank sends for a message of this many bytes.
std::size_t sent_elements(const Collective& one, std::size_t bytes, int ranks) {
    const std::size_t all = bytes / width(one.type);
    return one.operation == Operation::all_gather ? all / static_cast<std::size_t>(ranks) : all;
}

std::size_t received_elements(const Collective& one, std::size_t bytes, int ranks) {
    const std::size_t all = bytes / width(one.type);
    return one.operation == Operation::reduce_scatter ? all / static_cast<std::size_t>(ranks) : all;
}

}  // namespace

std::size_t width(Type type) {
    return type == Type::fp64 ? 8 : type == Type::fp32 ? 4 : 2;
}

double bus_factor(Operation operation, int ranks) {
    const double n = ranks;
    switch (operation) {
        case Operation::all_reduce:
            return 2 * (n - 1) / n;
        case Operation::all_gather:
        case Operation::reduce_scatter:
        case Operation::alltoall:
            return (n - 1) / n;
        case Operation::sendrecv:
            break;
    }
    return 1;
}

Ring::Ring(const Library& library, const std::vector<tenken::cuda::Gpu*>& gpus, const UniqueId& id, int first,
           int ranks, std::size_t bytes)
    : library_(library), ranks_(ranks), capacity_(bytes / sizeof(double) * sizeof(double)) {
    int rank = first;
    for (tenken::cuda::Gpu* gpu : gpus) {
        Member member;
        member.gpu = gpu;
        member.rank = rank++;
        member.comm = nullptr;
        const CurrentGpu current(member.gpu->index());
        member.stream.reset(new tenken::cuda::Stream);
        member.send = allocated(library_, capacity_);
        member.receive = allocated(library_, capacity_);
        members_.push_back(std::move(member));
    }
    TENKEN_NCCL(group_start());
    for (Member& member : members_) {
        const CurrentGpu current(member.gpu->index());
        TENKEN_NCCL(comm_init_rank(&member.comm, ranks, id, member.rank));
    }
    TENKEN_NCCL(group_end());
}

Ring::~Ring() {
    for (const Member& member : members_) {
        if (member.comm != nullptr) library_.comm_destroy(member.comm);
    }
}

void Ring::prepare(const Collective& one, std::size_t bytes, int pattern, long windows) {
    constexpr std::size_t line = 512;  // windows are aligned like an allocation
    stride_ = (bytes + line - 1) / line * line;
    windows_ = std::max(1L, std::min(windows, static_cast<long>(capacity_ / stride_)));
    for (Member& member : members_) {
        const CurrentGpu current(member.gpu->index());
        const std::size_t elements = sent_elements(one, bytes, ranks_);
        const Buffer values = {{one.type == Type::fp64, ranks_, pattern},
                               one.operation,
                               false,
                               member.rank,
                               elements / static_cast<std::size_t>(ranks_)};
        char* const array = member.send.get();
        if (one.type == Type::fp64)
            write<std::uint64_t>(array, stride_, windows_, elements, values, *member.stream);
        if (one.type == Type::fp32)
            write<std::uint32_t>(array, stride_, windows_, elements, values, *member.stream);
        if (one.type == Type::bf16)
            write<std::uint16_t>(array, stride_, windows_, elements, values, *member.stream);
        const std::size_t whole = static_cast<std::size_t>(windows_ - 1) * stride_ + bytes;
        TENKEN_CUDA(cudaMemsetAsync(member.receive.get(), 0xff, whole, member.stream->get()));
        member.stream->synchronize();
    }
}

void Ring::run(const Collective& one, std::size_t bytes, long times) {
    const std::size_t count = sent_elements(one, bytes, ranks_);
    const std::size_t each = bytes / width(one.type) / static_cast<std::size_t>(ranks_);
    const int type = code(one.type);
    for (long i = 0; i < times; ++i) {
        const std::size_t offset = static_cast<std::size_t>(turn_++ % windows_) * stride_;
        TENKEN_NCCL(group_start());
        for (const Member& member : members_) {
            const char* const from = member.send.get() + offset;
            char* const to = member.receive.get() + offset;
            cudaStream_t const stream = member.stream->get();
            switch (one.operation) {
                case Operation::all_reduce:
                    TENKEN_NCCL(all_reduce(from, to, count, type, sum, member.comm, stream));
                    break;
                case Operation::all_gather:
                    TENKEN_NCCL(all_gather(from, to, count, type, member.comm, stream));
                    break;
                case Operation::reduce_scatter:
                    TENKEN_NCCL(reduce_scatter(from, to, each, type, sum, member.comm, stream));
                    break;
                case Operation::sendrecv:
                    TENKEN_NCCL(send(from, count, type, (member.rank + 1) % ranks_, member.comm, stream));
                    TENKEN_NCCL(
                        receive(to, count, type, (member.rank + ranks_ - 1) % ranks_, member.comm, stream));
                    break;
                case Operation::alltoall:
                    if (library_.all_to_all != nullptr) {
                        TENKEN_NCCL(all_to_all(from, to, each, type, member.comm, stream));
                        break;
                    }
                    for (int peer = 0; peer < ranks_; ++peer) {
                        const std::size_t part = static_cast<std::size_t>(peer) * each * width(one.type);
                        TENKEN_NCCL(send(from + part, each, type, peer, member.comm, stream));
                        TENKEN_NCCL(receive(to + part, each, type, peer, member.comm, stream));
                    }
                    break;
            }
        }
        TENKEN_NCCL(group_end());
    }
    for (const Member& member : members_) member.stream->synchronize();
}

tenken::ErrorScan Ring::compare(const Collective& one, std::size_t bytes, int pattern) {
    tenken::ErrorScan errors(0);
    const std::size_t elements = received_elements(one, bytes, ranks_);
    const std::size_t each = bytes / width(one.type) / static_cast<std::size_t>(ranks_);
    for (const Member& member : members_) {
        const CurrentGpu current(member.gpu->index());
        const Buffer values = {
            {one.type == Type::fp64, ranks_, pattern}, one.operation, true, member.rank, each};
        const char* const array = member.receive.get();
        if (one.type == Type::fp64)
            errors.merge(compared<std::uint64_t>(array, stride_, windows_, elements, values, *member.stream));
        if (one.type == Type::fp32)
            errors.merge(compared<std::uint32_t>(array, stride_, windows_, elements, values, *member.stream));
        if (one.type == Type::bf16)
            errors.merge(compared<std::uint16_t>(array, stride_, windows_, elements, values, *member.stream));
    }
    return errors;
}

void Ring::flip_bit(const Collective& one) {
    const CurrentGpu current(members_.front().gpu->index());
    char* const array = members_.front().receive.get();
    if (one.type == Type::fp64) flip<std::uint64_t>(array);
    if (one.type == Type::fp32) flip<std::uint32_t>(array);
    if (one.type == Type::bf16) flip<std::uint16_t>(array);
}

}  // namespace nccl
