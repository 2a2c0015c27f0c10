#include "programs/mpi_p2p/exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "catalogue/mpi_p2p.h"
#include "lib/base/clock.h"

namespace mpi_p2p {

namespace {

constexpr int tag = 7;
constexpr int answer_tag = 8;
/// Operations of a repetition at most, unless its duration is requested.
constexpr long max_operations = 1000;

int count_of(std::size_t bytes) {
    return static_cast<int>(bytes);  // at most 1 GiB, by the range of the option
}

}  // namespace

std::size_t stride(std::size_t bytes) {
    return (bytes + 255) / 256 * 256;
}

int Plan::messages(std::size_t bytes) const {
    const std::size_t fit = std::max<std::size_t>(window_bytes / stride(bytes), 1);
    return static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(window), fit));
}

std::size_t Plan::buffer_bytes(std::size_t maximum) const {
    std::size_t needed = stride(maximum);
    for (std::size_t bytes = 1; bytes <= maximum; bytes *= 2) {
        needed = std::max(needed, stride(bytes) * static_cast<std::size_t>(messages(bytes)));
    }
    return std::max(needed, stride(maximum) * static_cast<std::size_t>(messages(maximum)));
}

Values Exchange::values(int rank, int slot, int pattern) const {
    return {1.0 + pattern + 4.0 * (rank + static_cast<double>(world_.size()) * slot), 1};
}

double Exchange::repeat(const Work& work, long times) {
    const double begin = tenken::now_seconds();
    if (work.part) {
        for (long i = 0; i < times; ++i) work.once();
    }
    const double seconds = tenken::now_seconds() - begin;
    collective_ |= work.collective;
    if (work.part) {
        for (const Expected& one : work.send)
            sent_bytes_ += static_cast<double>(one.bytes) * static_cast<double>(times);
        sent_messages_ += static_cast<double>(work.send.size()) * static_cast<double>(times);
    }
    if (work.meanwhile) work.meanwhile();
    return seconds;
}

void Exchange::fill(const Work& work, int pattern) {
    for (const Expected& one : work.send) {
        send_.fill(one.offset, one.bytes, {one.values.base + pattern * one.values.scale, one.values.scale});
    }
    for (const Expected& one : work.receive) receive_.clear(one.offset, one.bytes);
    world_.barrier();
}

Outcome Exchange::run(const Work& work) {
    world_.alive(work.name + ", " + std::to_string(work.bytes) + " B");
    fill(work, 0);
    repeat(work, 1);  // connects the ranks, which can last longer than the warm-up
    // Rank 0 determines the duration of the warm-up and the number of operations per repetition.
    double total = 0;
    double each = 0;
    for (long times = 1; total < plan_.warmup_seconds || each == 0; times = std::min(2 * times, 64L)) {
        const double seconds = world_.broadcast(repeat(work, times));
        total += seconds;
        each = std::max(seconds / static_cast<double>(times), 1e-9);
        world_.alive(work.name + ", " + std::to_string(work.bytes) + " B, warm-up");
    }
    const double least = std::max(work.min_seconds, plan_.repetition_seconds);
    const long most = plan_.repetition_seconds > 0 ? std::numeric_limits<int>::max() : max_operations;
    const long operations =
        std::max(1L, std::min(most, static_cast<long>(std::ceil(std::min(least / each, 1e9)))));
    fill(work, 1);

    std::vector<double> seconds;
    if (gpu_ != nullptr) gpu_->begin_timed();
    for (long i = 0; i < plan_.repetitions; ++i) {
        seconds.push_back(repeat(work, operations) / static_cast<double>(operations));
        world_.alive(work.name + ", " + std::to_string(work.bytes) + " B");
    }
    if (gpu_ != nullptr) gpu_->end_timed();
    world_.barrier();

    Outcome outcome;
    outcome.seconds = work.slowest ? world_.largest(seconds) : seconds;
    const bool spoil = spoil_ && !work.receive.empty();
    if (spoil) receive_.flip_bit(work.receive.back().offset);
    spoil_ = false;
    tenken::ErrorScan errors(0);
    for (const Expected& one : work.receive) {
        errors.merge(
            receive_.compare(one.offset, one.bytes, {one.values.base + one.values.scale, one.values.scale}));
    }
    outcome.check = checked(errors, work.name, work.bytes);
    return outcome;
}

tenken::Check Exchange::checked(const tenken::ErrorScan& errors, const std::string& name, std::size_t bytes) {
    const tenken::Verified of = name == "bisection" ? catalogue::bisection()
                                : name == "victim"  ? catalogue::victim()
                                : name == "arrival" ? catalogue::arrival()
                                                    : catalogue::messages();
    return tenken::of_all(errors.check(of, tenken::Subject::ranks(world_.size()),
                                       {{"metric", tenken::Json(name)}, {"bytes", tenken::Json(bytes)}}),
                          world_);
}

Outcome Exchange::latency(std::size_t bytes, int partner) {
    Work work;
    work.name = "latency";
    work.bytes = bytes;
    const bool first = world_.rank() == 0;
    work.part = first || world_.rank() == partner;
    if (work.part) {
        const int other = first ? partner : 0;
        work.send = {{0, bytes, values(world_.rank(), 0)}};
        work.receive = {{0, bytes, values(other, 0)}};
        void* const from = send_.at(0);
        void* const to = receive_.at(0);
        work.once = [=] {
            if (first) TENKEN_MPI(MPI_Send(from, count_of(bytes), MPI_BYTE, other, tag, MPI_COMM_WORLD));
            TENKEN_MPI(
                MPI_Recv(to, count_of(bytes), MPI_BYTE, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (!first) TENKEN_MPI(MPI_Send(from, count_of(bytes), MPI_BYTE, other, tag, MPI_COMM_WORLD));
        };
    }
    Outcome outcome = run(work);
    for (double& one : outcome.seconds) one /= 2;
    return outcome;
}

/// @param to destination of this rank's window, -1: none; @param from source of the window that it receives
Outcome Exchange::windows(const std::string& name, std::size_t bytes, int to, int from, bool acknowledged,
                          bool slowest) {
    Work work;
    work.name = name;
    work.bytes = bytes;
    work.part = to >= 0 || from >= 0;
    work.slowest = slowest;
    const int messages = plan_.messages(bytes);
    for (int slot = 0; slot < messages; ++slot) {
        const std::size_t offset = stride(bytes) * static_cast<std::size_t>(slot);
        if (to >= 0) work.send.push_back({offset, bytes, values(world_.rank(), slot)});
        if (from >= 0) work.receive.push_back({offset, bytes, values(from, slot)});
    }
    std::vector<MPI_Request> requests(static_cast<std::size_t>(2 * messages));
    work.once = [&] {
        int posted = 0;
        const auto offset = [&](int slot) { return stride(bytes) * static_cast<std::size_t>(slot); };
        for (int slot = 0; slot < messages && from >= 0; ++slot) {
            TENKEN_MPI(MPI_Irecv(receive_.at(offset(slot)), count_of(bytes), MPI_BYTE, from, tag,
                                 MPI_COMM_WORLD, &requests[static_cast<std::size_t>(posted++)]));
        }
        for (int slot = 0; slot < messages && to >= 0; ++slot) {
            TENKEN_MPI(MPI_Isend(send_.at(offset(slot)), count_of(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD,
                                 &requests[static_cast<std::size_t>(posted++)]));
        }
        TENKEN_MPI(MPI_Waitall(posted, requests.data(), MPI_STATUSES_IGNORE));
        if (!acknowledged) return;
        char answer[4] = "ok";
        if (to >= 0) {
            TENKEN_MPI(MPI_Recv(answer, 4, MPI_BYTE, to, answer_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            TENKEN_MPI(MPI_Send(answer, 4, MPI_BYTE, from, answer_tag, MPI_COMM_WORLD));
        }
    };
    return run(work);
}

Outcome Exchange::bandwidth(std::size_t bytes, int partner) {
    const int rank = world_.rank();
    return windows("bandwidth", bytes, rank == 0 ? partner : -1, rank == partner ? 0 : -1, true, false);
}

Outcome Exchange::bidirectional(std::size_t bytes, int partner) {
    const int rank = world_.rank();
    const int other = rank == 0 ? partner : rank == partner ? 0 : -1;
    return windows("bidirectional", bytes, other, other, false, false);
}

Outcome Exchange::message_rate(std::size_t bytes) {
    const int rank = world_.rank();
    const int half = world_.size() / 2;
    const int to = rank < half ? rank + half : -1;
    const int from = rank >= half && rank < 2 * half ? rank - half : -1;
    return windows("message_rate", bytes, to, from, true, true);
}

Outcome Exchange::allreduce(std::size_t bytes) {
    Work work;
    work.name = "allreduce";
    work.collective = true;
    work.bytes = bytes;
    work.slowest = true;
    const int count = count_of(bytes / sizeof(double));
    Values sum = {0, static_cast<double>(world_.size())};
    for (int rank = 0; rank < world_.size(); ++rank) sum.base += values(rank, 0).base;
    work.send = {{0, bytes, values(world_.rank(), 0)}};
    work.receive = {{0, bytes, sum}};  // every rank adds the pattern once
    void* const from = send_.at(0);
    void* const to = receive_.at(0);
    work.once = [=] { TENKEN_MPI(MPI_Allreduce(from, to, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)); };
    return run(work);
}

Outcome Exchange::alltoall(std::size_t bytes) {
    Work work;
    work.name = "alltoall";
    work.collective = true;
    work.bytes = bytes;
    work.slowest = true;
    // Blocks are contiguous without gaps, so they are whole doubles.
    for (int rank = 0; rank < world_.size(); ++rank) {
        const std::size_t offset = bytes * static_cast<std::size_t>(rank);
        work.send.push_back({offset, bytes, values(world_.rank(), rank)});
        work.receive.push_back({offset, bytes, values(rank, world_.rank())});
    }
    void* const from = send_.at(0);
    void* const to = receive_.at(0);
    work.once = [=] {
        TENKEN_MPI(
            MPI_Alltoall(from, count_of(bytes), MPI_BYTE, to, count_of(bytes), MPI_BYTE, MPI_COMM_WORLD));
    };
    return run(work);
}

Outcome Exchange::broadcast(std::size_t bytes) {
    Work work;
    work.name = "bcast";
    work.collective = true;
    work.bytes = bytes;
    work.slowest = true;
    const bool root = world_.rank() == 0;
    if (root) work.send = {{0, bytes, values(0, 0)}};
    if (!root) work.receive = {{0, bytes, values(0, 0)}};
    void* const data = root ? send_.at(0) : receive_.at(0);
    work.once = [=] { TENKEN_MPI(MPI_Bcast(data, count_of(bytes), MPI_BYTE, 0, MPI_COMM_WORLD)); };
    return run(work);
}

}  // namespace mpi_p2p
