// Each rank maps a mailbox of every other (CUDA IPC). A kernel stores its data in the others' mailboxes, sets
// a flag there, and waits for the flags of the others in its own mailbox. A message costs one kernel on
// either side, and takes a few microseconds less than one of a library.
//
// Messages have numbers, counted by kernels on the GPU, so that they can be part of a CUDA graph. A mailbox
// has two places per sender, for even and odd numbers. The sender of message n + 2 has received message n +
// 1, which the other rank sent after reading message n.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lib/cuda/check.h"
#include "lib/cuda/memory.h"
#include "programs/hpcg/comm_stream.h"
#include "programs/hpcg/peer_exchange.h"

namespace hpcg {

namespace {

typedef unsigned long long Number;  ///< of a message, from 1 on

constexpr int max_ranks = 16;
constexpr int max_legs = directions - 1;
constexpr int threads = 256;
constexpr int max_blocks =
    64;  ///< of a leg: few, because all of them must be resident on the GPU to make progress

/// Layout of the memory that a rank shares with the others; the same in all ranks.
struct Mailbox {
    int ranks;
    int max_points;

    static constexpr std::size_t front = 256;

    /// Numbers of the last halo and of the last sum, and the number of blocks that have finished the current
    /// one.
    __device__ static Number* number_of_halo(char* base) { return reinterpret_cast<Number*>(base); }
    __device__ static Number* number_of_sum(char* base) { return number_of_halo(base) + 1; }
    __device__ static unsigned* blocks_done(char* base) {
        return reinterpret_cast<unsigned*>(number_of_halo(base) + 2);
    }
    /// The number of the last sum sent by a rank, and those of the blocks of its last halo.
    __device__ Number* sum_flag(char* base, int from) const {
        return reinterpret_cast<Number*>(base + front) + from;
    }
    __device__ Number* halo_flag(char* base, int from, int block) const {
        return sum_flag(base, ranks) + from * max_blocks + block;
    }
    __device__ double* summand(char* base, Number number, int from) const {
        return reinterpret_cast<double*>(base + flags_end()) + place(number, from);
    }
    __device__ double* mail(char* base, Number number, int from) const {
        return reinterpret_cast<double*>(base + sums_end()) +
               place(number, from) * static_cast<std::size_t>(max_points);
    }
    std::size_t bytes() const { return sums_end() + 2 * count() * mail_bytes(); }

  private:
    __host__ __device__ std::size_t count() const { return static_cast<std::size_t>(ranks); }
    __host__ __device__ std::size_t mail_bytes() const {
        return static_cast<std::size_t>(max_points) * sizeof(double);
    }
    __host__ __device__ std::size_t flags_end() const {
        return front + count() * (1 + max_blocks) * sizeof(Number);
    }
    __host__ __device__ std::size_t sums_end() const { return flags_end() + 2 * count() * sizeof(double); }
    __device__ std::size_t place(Number number, int from) const {
        return static_cast<std::size_t>(number % 2) * count() + static_cast<std::size_t>(from);
    }
};

/// The mailboxes of all ranks, mapped by this one.
struct Mailboxes {
    Mailbox box;
    int me;
    char* of[max_ranks];

    __device__ char* mine() const { return of[me]; }
};

/// The data for and from one other rank.
struct Leg {
    int rank;
    int begin;
    int count;
};
struct Legs {
    Leg leg[max_legs];
};

/// Both ends of a leg count in the same way.
__host__ __device__ inline int blocks_of(int count) {
    const int blocks = (count + 4 * threads - 1) / (4 * threads);
    return blocks < 1 ? 1 : blocks > max_blocks ? max_blocks : blocks;
}

/// A reader of the flag also sees earlier stores by any thread of the block that has synchronised since.
__device__ inline void raise(Number* flag, Number number) {
    __threadfence_system();
    *static_cast<volatile Number*>(flag) = number;
}
__device__ inline void wait_for(const Number* flag, Number number) {
    while (*static_cast<const volatile Number*>(flag) < number) {
    }
    __threadfence_system();
}

/// One row of blocks per leg; corresponding blocks of the two ranks handle the same
/// part.
__global__ void __launch_bounds__(threads)
    exchange_kernel(Mailboxes boxes, Legs legs, const double* send, double* receive) {
    const Mailbox& box = boxes.box;
    char* const mine = boxes.mine();
    Number* const last = Mailbox::number_of_halo(mine);
    const Number number = *static_cast<volatile Number*>(last) + 1;
    const Leg leg = legs.leg[blockIdx.y];
    const int block = static_cast<int>(blockIdx.x);
    const int blocks = blocks_of(leg.count);
    if (block < blocks) {
        const int part = (leg.count + blocks - 1) / blocks;
        const int begin = block * part;
        const int end = begin + part < leg.count ? begin + part : leg.count;
        double* const there = box.mail(boxes.of[leg.rank], number, boxes.me);
        for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += threads) {
            there[i] = send[leg.begin + i];
        }
        __threadfence_system();
        __syncthreads();
        if (threadIdx.x == 0) {
            raise(box.halo_flag(boxes.of[leg.rank], boxes.me, block), number);
            wait_for(box.halo_flag(mine, leg.rank, block), number);
        }
        __syncthreads();
        const double* const here = box.mail(mine, number, leg.rank);
        for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += threads) {
            receive[leg.begin + i] = __ldcg(here + i);  // not from an L1 that may contain an older message
        }
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    const unsigned all = gridDim.x * gridDim.y;
    // The last block counts the message once all have read the previous number.
    if (atomicInc(Mailbox::blocks_done(mine), all - 1) == all - 1)
        *static_cast<volatile Number*>(last) = number;
}

/// Added in the order of ranks, so that every rank gets the same sum.
__global__ void __launch_bounds__(32) sum_over_ranks_kernel(Mailboxes boxes, double* sum) {
    const Mailbox& box = boxes.box;
    char* const mine = boxes.mine();
    Number* const last = Mailbox::number_of_sum(mine);
    const Number number = *static_cast<volatile Number*>(last) + 1;
    const int rank = static_cast<int>(threadIdx.x);
    const double value = *sum;
    double theirs = 0;
    if (rank < box.ranks) {
        *static_cast<volatile double*>(box.summand(boxes.of[rank], number, boxes.me)) = value;
        raise(box.sum_flag(boxes.of[rank], boxes.me), number);
        wait_for(box.sum_flag(mine, rank), number);
        theirs = *static_cast<volatile double*>(box.summand(mine, number, rank));
    }
    double all = 0;
    for (int r = 0; r < box.ranks; ++r) all += __shfl_sync(0xffffffffu, theirs, r);
    if (rank != 0) return;
    *sum = all;
    *static_cast<volatile Number*>(last) = number;
}

class PeerExchange : public StreamExchange {
  public:
    PeerExchange(Ranks& ranks, const tenken::cuda::Stream& stream, int max_points)
        : StreamExchange(stream), ranks_(ranks) {
        boxes_.box.ranks = ranks.size();
        boxes_.box.max_points = max_points;
        boxes_.me = ranks.rank();
    }
    ~PeerExchange() override {
        for (int r = 0; r < boxes_.box.ranks; ++r) {
            if (r != boxes_.me && boxes_.of[r] != nullptr) cudaIpcCloseMemHandle(boxes_.of[r]);
        }
    }

    /// @return why not; empty in all ranks or in none
    std::string connect() {
        std::string why_not;
        cudaIpcMemHandle_t mine;
        if (ranks_.size() > max_ranks) {
            why_not = "there are more than " + std::to_string(max_ranks) + " ranks";
        } else if (ranks_.local_size() != ranks_.size()) {
            why_not = "the ranks are on several nodes";
        } else {
            // An allocation that shares no pages with others, because all of it is mapped.
            constexpr std::size_t page = std::size_t{2} << 20;
            memory_.reset(new tenken::cuda::DeviceArray<char>((boxes_.box.bytes() + page - 1) / page * page));
            TENKEN_CUDA(cudaMemsetAsync(memory_->data(), 0, memory_->bytes(), stream_.get()));
            stream_.synchronize();
            boxes_.of[boxes_.me] = memory_->data();
            why_not = said(cudaIpcGetMemHandle(&mine, memory_->data()), "cudaIpcGetMemHandle");
        }
        if (!agree(why_not)) return why_not;
        std::string all;
        for (const std::string& one :
             ranks_.gather(std::string(reinterpret_cast<const char*>(&mine), sizeof mine))) {
            all += one;
        }
        all = ranks_.broadcast(all);
        for (int r = 0; r < ranks_.size() && why_not.empty(); ++r) {
            if (r == boxes_.me) continue;
            cudaIpcMemHandle_t theirs;
            std::memcpy(&theirs, all.data() + static_cast<std::size_t>(r) * sizeof theirs, sizeof theirs);
            void* mapped = nullptr;
            why_not = said(cudaIpcOpenMemHandle(&mapped, theirs, cudaIpcMemLazyEnablePeerAccess),
                           "cudaIpcOpenMemHandle");
            boxes_.of[r] = static_cast<char*>(mapped);
        }
        agree(why_not);
        return why_not;
    }

    std::string name() const override { return "peer stores (CUDA IPC)"; }
    void sum(double* number) override {
        sum_over_ranks_kernel<<<1, 32, 0, stream_.get()>>>(boxes_, number);
        TENKEN_CUDA(cudaGetLastError());
    }

  private:
    static std::string said(cudaError_t result, const std::string& what) {
        if (result == cudaSuccess) return "";
        cudaGetLastError();
        return what + ": " + cudaGetErrorString(result);
    }

    /// Whether all ranks can use peer stores.
    bool agree(std::string& why_not) {
        const bool all = ranks_.largest({why_not.empty() ? 0.0 : 1.0}).front() == 0;
        if (!all && why_not.empty()) why_not = "another rank cannot";
        return all;
    }

    void move(const Halo& halo, const double* from, double* to, const tenken::cuda::Stream& stream) override {
        if (halo.neighbours.empty()) return;
        Legs legs = {};
        int blocks = 1;
        for (std::size_t i = 0; i < halo.neighbours.size(); ++i) {
            const Neighbour& neighbour = halo.neighbours[i];
            legs.leg[i] = {neighbour.rank, neighbour.begin, neighbour.count};
            blocks = std::max(blocks, blocks_of(neighbour.count));
        }
        const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(halo.neighbours.size()));
        exchange_kernel<<<grid, threads, 0, stream.get()>>>(boxes_, legs, from, to);
        TENKEN_CUDA(cudaGetLastError());
    }

    Ranks& ranks_;
    Mailboxes boxes_ = {};
    std::unique_ptr<tenken::cuda::DeviceArray<char>> memory_;
};

}  // namespace

std::unique_ptr<Exchange> make_peer_exchange(Ranks& ranks, const tenken::cuda::Stream& stream, int max_points,
                                             std::string& why_not) {
    std::unique_ptr<PeerExchange> exchange(new PeerExchange(ranks, stream, max_points));
    why_not = exchange->connect();
    if (!why_not.empty()) return nullptr;
    return std::unique_ptr<Exchange>(std::move(exchange));
}

}  // namespace hpcg
