// Exchanges of many ranks at once: bisection, incast, a victim under load, and who arrives late.
#include <algorithm>
#include <chrono>
#include <thread>

#include "lib/base/clock.h"
#include "programs/mpi_p2p/exchange.h"

namespace mpi_p2p {

namespace {

constexpr int tag = 9;
constexpr int answer_tag = 10;
/// Duration of the ping-pong under load: long enough for queues to fill.
constexpr double victim_seconds = 5e-3;
/// Duration of the computation before an arrival, in rank 0: above the noise of an idle operating system.
constexpr double work_seconds = 0.5e-3;

int count_of(std::size_t bytes) {
    return static_cast<int>(bytes);
}

/// A chain of dependent operations, the same result in every rank. Begins and ends with a volatile access: it
/// stays between two readings of the clock.
double compute(long steps) {
    static volatile double kept = 0;
    kept = 1;
    double value = kept;
    for (long i = 0; i < steps; ++i) value = value * 0.999 + 1;
    kept = value;
    return kept;
}

}  // namespace

Outcome Exchange::bisection(std::size_t bytes, int partner) {
    return windows("bisection", bytes, partner, partner, false, true);
}

int Exchange::incast_messages(std::size_t bytes) const {
    return std::max(1, plan_.messages(bytes) / (world_.size() - 1));
}

Outcome Exchange::incast(std::size_t bytes) {
    Work work;
    work.name = "incast";
    work.bytes = bytes;
    const int rank = world_.rank();
    const int messages = incast_messages(bytes);
    const std::size_t step = stride(bytes);
    for (int slot = 0; slot < messages && rank > 0; ++slot)
        work.send.push_back({step * static_cast<std::size_t>(slot), bytes, values(rank, slot)});
    for (int i = 0; i < messages * (world_.size() - 1) && rank == 0; ++i)
        work.receive.push_back(
            {step * static_cast<std::size_t>(i), bytes, values(1 + i / messages, i % messages)});
    std::vector<MPI_Request> requests(std::max(work.send.size(), work.receive.size()));
    work.once = [&] {
        for (std::size_t i = 0; i < requests.size(); ++i) {
            const std::size_t offset = step * i;
            if (rank == 0) {
                TENKEN_MPI(MPI_Irecv(receive_.at(offset), count_of(bytes), MPI_BYTE,
                                     1 + static_cast<int>(i) / messages, tag, MPI_COMM_WORLD, &requests[i]));
            } else {
                TENKEN_MPI(MPI_Isend(send_.at(offset), count_of(bytes), MPI_BYTE, 0, tag, MPI_COMM_WORLD,
                                     &requests[i]));
            }
        }
        TENKEN_MPI(MPI_Waitall(count_of(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
        char answer = 0;
        if (rank > 0)
            TENKEN_MPI(MPI_Recv(&answer, 1, MPI_BYTE, 0, answer_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int other = 1; other < world_.size() && rank == 0; ++other)
            TENKEN_MPI(MPI_Send(&answer, 1, MPI_BYTE, other, answer_tag, MPI_COMM_WORLD));
    };
    return run(work);
}

Outcome Exchange::victim(std::size_t load_bytes, int partner, bool loaded) {
    constexpr std::size_t bytes = 8;
    const int rank = world_.rank();
    Work work;
    work.name = "victim";
    work.bytes = bytes;
    work.min_seconds = victim_seconds;
    work.collective = true;  // the load's bytes depend on the victim's time
    work.part = rank == 0 || rank == partner;
    std::vector<int> others;
    for (int one = 1; one < world_.size(); ++one) {
        if (one != partner) others.push_back(one);
    }
    const int target = others.back();
    others.pop_back();
    const std::size_t step = stride(load_bytes);
    if (work.part) {
        const int other = rank == 0 ? partner : 0;
        work.send = {{0, bytes, values(rank, 0)}};
        work.receive = {{0, bytes, values(other, 0)}};
        void* const from = send_.at(0);
        void* const to = receive_.at(0);
        work.once = [=] {
            if (rank == 0) TENKEN_MPI(MPI_Send(from, bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD));
            TENKEN_MPI(MPI_Recv(to, bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (rank != 0) TENKEN_MPI(MPI_Send(from, bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD));
        };
    } else if (loaded && rank != target) {
        work.send = {{0, load_bytes, values(rank, 0)}};
    } else if (loaded) {
        for (std::size_t i = 0; i < others.size(); ++i)
            work.receive.push_back({step * i, load_bytes, values(others[i], 0)});
    }
    // The two enter the barrier when they have finished. Only the target checks whether they have, and
    // informs the sources by its answer, so that no source sends to a rank that has left.
    work.meanwhile = [&] {
        MPI_Request ended = MPI_REQUEST_NULL;
        TENKEN_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &ended));
        char more = loaded ? 1 : 0;
        while (!work.part && more) {
            if (rank != target) {
                TENKEN_MPI(
                    MPI_Send(send_.at(0), count_of(load_bytes), MPI_BYTE, target, tag, MPI_COMM_WORLD));
                TENKEN_MPI(
                    MPI_Recv(&more, 1, MPI_BYTE, target, answer_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                continue;
            }
            std::vector<MPI_Request> requests(others.size());
            for (std::size_t i = 0; i < others.size(); ++i)
                TENKEN_MPI(MPI_Irecv(receive_.at(step * i), count_of(load_bytes), MPI_BYTE, others[i], tag,
                                     MPI_COMM_WORLD, &requests[i]));
            TENKEN_MPI(MPI_Waitall(count_of(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
            int over = 0;
            TENKEN_MPI(MPI_Test(&ended, &over, MPI_STATUS_IGNORE));
            more = over ? 0 : 1;
            for (int other : others)
                TENKEN_MPI(MPI_Send(&more, 1, MPI_BYTE, other, answer_tag, MPI_COMM_WORLD));
        }
        TENKEN_MPI(MPI_Wait(&ended, MPI_STATUS_IGNORE));
    };
    return run(work);
}

Outcome Exchange::arrival(double late_seconds) {
    double begin = tenken::now_seconds();
    compute(1000000);
    const double million = std::max(tenken::now_seconds() - begin, 1e-6);
    const auto steps = static_cast<long>(world_.broadcast(work_seconds / million * 1e6));
    const double each = compute(steps);
    double sum = 0;
    tenken::ErrorScan errors(0);
    Outcome outcome;
    for (long i = -3; i < plan_.repetitions; ++i) {  // three to warm up
        world_.alive("arrival");
        world_.barrier();
        begin = tenken::now_seconds();
        if (late_seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(late_seconds));
        const double mine = compute(steps);
        if (i >= 0) outcome.seconds.push_back(tenken::now_seconds() - begin);
        TENKEN_MPI(MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
        errors.compare(static_cast<std::size_t>(i + 3), spoil_ ? sum + 1 : sum, each);
        spoil_ = false;
    }
    collective_ = true;
    outcome.check = checked(errors, "arrival", sizeof(double));
    return outcome;
}

}  // namespace mpi_p2p
