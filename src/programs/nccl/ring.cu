#include <cuda_runtime.h>

#include "lib/cuda/peer.h"
#include "lib/cuda/verify.cuh"
#include "programs/nccl/ring.h"

#define TENKEN_NCCL(call) library_.check(library_.call, #call)

namespace nccl {

namespace {

using tenken::cuda::CurrentGpu;

/// Exact, different for adjacent elements and between ranks; a sum over ranks scales it.
struct Values {
    double base;
    double scale;
    __host__ __device__ double operator()(std::size_t i) const {
        return base + scale * (static_cast<double>(i % 1021) / 1024.0);
    }
};

Values of_rank(int rank, int pattern) {
    return {1.0 + pattern + 4.0 * rank, 1};
}

}  // namespace

double bus_factor(Operation operation, int ranks) {
    const double n = ranks;
    switch (operation) {
        case Operation::all_reduce:
            return 2 * (n - 1) / n;
        case Operation::all_gather:
            return (n - 1) / n;
        case Operation::sendrecv:
            break;
    }
    return 1;
}

Ring::Ring(const Library& library, tenken::cuda::Gpus& gpus, const std::vector<std::size_t>& members,
           const UniqueId& id, int first, int ranks, std::size_t bytes)
    : library_(library), ranks_(ranks) {
    int rank = first;
    for (std::size_t place : members) {
        Member member;
        member.gpu = gpus.list()[place].get();
        member.rank = rank++;
        member.comm = nullptr;
        const CurrentGpu current(member.gpu->index());
        member.stream.reset(new tenken::cuda::Stream);
        member.send.reset(new tenken::cuda::DeviceArray<double>(bytes / sizeof(double)));
        member.receive.reset(new tenken::cuda::DeviceArray<double>(bytes / sizeof(double)));
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

std::size_t Ring::received(Operation operation, std::size_t bytes) const {
    const std::size_t elements = bytes / sizeof(double);
    const auto ranks = static_cast<std::size_t>(ranks_);
    return operation == Operation::all_gather ? elements / ranks * ranks : elements;
}

std::size_t Ring::sent(Operation operation, std::size_t bytes) const {
    const std::size_t elements = bytes / sizeof(double);
    return operation == Operation::all_gather ? elements / static_cast<std::size_t>(ranks_) : elements;
}

void Ring::prepare(Operation operation, std::size_t bytes, int pattern) {
    for (Member& member : members_) {
        const CurrentGpu current(member.gpu->index());
        tenken::cuda::fill(member.send->data(), sent(operation, bytes), of_rank(member.rank, pattern),
                           *member.stream);
        TENKEN_CUDA(cudaMemsetAsync(member.receive->data(), 0xff, received(operation, bytes) * sizeof(double),
                                    member.stream->get()));
        member.stream->synchronize();
    }
}

void Ring::run(Operation operation, std::size_t bytes, long times) {
    const std::size_t count = sent(operation, bytes);
    for (long i = 0; i < times; ++i) {
        TENKEN_NCCL(group_start());
        for (const Member& member : members_) {
            const double* const from = member.send->data();
            double* const to = member.receive->data();
            cudaStream_t const stream = member.stream->get();
            switch (operation) {
                case Operation::all_reduce:
                    TENKEN_NCCL(all_reduce(from, to, count, float64, sum, member.comm, stream));
                    break;
                case Operation::all_gather:
                    TENKEN_NCCL(all_gather(from, to, count, float64, member.comm, stream));
                    break;
                case Operation::sendrecv:
                    TENKEN_NCCL(send(from, count, float64, (member.rank + 1) % ranks_, member.comm, stream));
                    TENKEN_NCCL(receive(to, count, float64, (member.rank + ranks_ - 1) % ranks_, member.comm,
                                        stream));
                    break;
            }
        }
        TENKEN_NCCL(group_end());
    }
    for (const Member& member : members_) member.stream->synchronize();
}

tenken::ErrorScan Ring::compare(Operation operation, std::size_t bytes, int pattern) {
    tenken::ErrorScan errors(0);
    const std::size_t count = sent(operation, bytes);
    for (const Member& member : members_) {
        const CurrentGpu current(member.gpu->index());
        const double* const found = member.receive->data();
        if (operation == Operation::all_reduce) {
            Values total = {0, static_cast<double>(ranks_)};
            for (int rank = 0; rank < ranks_; ++rank) total.base += of_rank(rank, pattern).base;
            errors.merge(tenken::cuda::compare(found, count, total, 0, *member.stream));
        } else if (operation == Operation::all_gather) {
            for (int rank = 0; rank < ranks_; ++rank) {
                errors.merge(tenken::cuda::compare(found + count * static_cast<std::size_t>(rank), count,
                                                   of_rank(rank, pattern), 0, *member.stream));
            }
        } else {
            const int before = (member.rank + ranks_ - 1) % ranks_;
            errors.merge(tenken::cuda::compare(found, count, of_rank(before, pattern), 0, *member.stream));
        }
    }
    return errors;
}

void Ring::flip_bit() {
    const CurrentGpu current(members_.front().gpu->index());
    tenken::cuda::flip_bit(members_.front().receive->data(), 0);
}

}  // namespace nccl
