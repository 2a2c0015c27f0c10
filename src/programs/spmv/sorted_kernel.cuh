// y = A x for a matrix as tasks (sorted.h).
#pragma once

#include "programs/spmv/csr_kernels.cuh"
#include "programs/spmv/sorted.h"

namespace spmv {

/// Tasks in device memory.
template <typename T>
struct TasksView {
    int tasks;
    const Task* list;
    const int* rows;
    const int* columns;
    const T* values;
    const int* busy;  ///< columns whose part of x is kept in shared memory
    int busy_count;
};

/// Entries of a task, `unroll` per lane.
template <typename T, int unroll>
struct Chunk {
    T value[unroll];
    int column[unroll];
};

/// Warps process the tasks of their block in turn. While the gathers of a chunk are in
/// flight, so are the entries of the next chunk, of this task or the next.
/// @tparam keeps whether x of the busy columns is kept in shared memory: busy_count + 1 elements
template <typename T, int threads, int blocks_an_sm, int unroll, bool keeps, Caching caching>
__global__ void __launch_bounds__(threads, blocks_an_sm)
    sorted_kernel(TasksView<T> a, const T* x, T* y, T* partial) {
    extern __shared__ __align__(16) unsigned char shared[];
    T* const kept = reinterpret_cast<T*>(shared);
    __shared__ int turn;  // the next unassigned task of this block
    const Loads<caching> loads;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int none = -1 - a.busy_count;
    if (threadIdx.x == 0) turn = threads / 32;
    if (keeps) {
        for (int i = static_cast<int>(threadIdx.x); i < a.busy_count; i += threads) {
            kept[i] = loads.again(x + __ldg(a.busy + i));
        }
        if (threadIdx.x == 0) kept[a.busy_count] = 0;
    }
    __syncthreads();

    const auto task = [&](int number) {
        const int index = number * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
        Task taken = {0, 0, 0, -2};  // none
        if (index < a.tasks) {
            const int4 four = __ldg(reinterpret_cast<const int4*>(a.list) + index);
            taken = {static_cast<unsigned>(four.x), four.y, four.z, four.w};
        }
        return taken;
    };
    const auto next_task = [&] {
        int number = 0;
        if (lane == 0) number = atomicAdd(&turn, 1);
        return task(__shfl_sync(0xffffffffu, number, 0));
    };
    const auto load = [&](const Task& from, int at) {
        Chunk<T, unroll> chunk;
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const int place = at + 32 * u + lane;
            chunk.column[u] = none;
            chunk.value[u] = 0;
            if (place < from.places) {
                const std::size_t p = static_cast<std::size_t>(from.first) + static_cast<unsigned>(place);
                chunk.column[u] = loads.once(a.columns + p);
                chunk.value[u] = loads.once(a.values + p);
            }
        }
        return chunk;
    };
    // The row of this lane in a slice, -1 if it has none.
    const auto row_of = [&](const Task& of) {
        return of.slice >= 0 && lane < of.rows ? __ldg(a.rows + of.slice + lane) : -1;
    };

    Task now = task(static_cast<int>(threadIdx.x / 32));
    if (now.slice == -2) return;
    Task next = next_task();
    int at = 0;
    int row = row_of(now);
    Chunk<T, unroll> chunk = load(now, 0);
    T sum = 0;
    for (;;) {
        Task after = now;
        int after_at = at + 32 * unroll;
        int after_row = row;
        const bool ends = after_at >= now.places;
        if (ends) {
            after = next;
            after_at = 0;
            after_row = row_of(after);
            if (after.slice != -2) next = next_task();
        }
        const Chunk<T, unroll> after_chunk = load(after, after_at);

        T gathered[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const int column = chunk.column[u];
            gathered[u] = 0;
            if (column >= 0) {
                gathered[u] = loads.again(x + column);
            } else if (keeps) {
                gathered[u] = kept[-1 - column];
            }
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) sum += chunk.value[u] * gathered[u];

        if (ends) {
            if (now.slice >= 0) {
                if (row >= 0) y[row] = sum;
                for (int i = 32 + lane; i < now.rows; i += 32) y[a.rows[now.slice + i]] = 0;  // empty rows
            } else {
                sum = sum_of_lanes(sum, 32);
                if (lane == 0) {
                    if (now.rows >= 0) {
                        y[now.rows] = sum;
                    } else {
                        partial[-1 - now.rows] = sum;
                    }
                }
            }
            sum = 0;
            if (after.slice == -2) return;
        }
        now = after;
        at = after_at;
        row = after_row;
        chunk = after_chunk;
    }
}

}  // namespace spmv
