// y = A x for a matrix in CSR without conversion: one thread per row, several lanes per row, rows by
// their length, tiles of whole rows staged through shared memory, and equal shares of rows and entries (merge
// path).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "programs/spmv/csr_view.h"
#include "programs/spmv/staging.cuh"
#include "programs/spmv/tile.h"

namespace spmv {

template <typename T>
__device__ inline T sum_of_lanes(T value, int lanes) {
    for (int offset = lanes / 2; offset > 0; offset /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, offset, lanes);
    }
    return value;
}

/// `lanes` adjacent lanes of a warp share a row; lanes = 1: one thread per row.
template <typename T, int lanes>
__global__ void __launch_bounds__(256) csr_lanes_kernel(CsrView<T> a, const T* x, T* y) {
    const Loads<Caching::streaming> loads;
    const std::int64_t thread = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    const std::int64_t row = thread / lanes;
    T sum = 0;
    if (row < a.rows) {
        const int last = a.offsets[row + 1];
        for (int j = a.offsets[row] + static_cast<int>(threadIdx.x % lanes); j < last; j += lanes) {
            sum += loads.once(a.values + j) * loads.again(x + loads.once(a.columns + j));
        }
    }
    sum = sum_of_lanes(sum, lanes);
    if (row < a.rows && threadIdx.x % lanes == 0) y[row] = sum;
}

/// Rows by class of length; a warp processes a piece of a long row, a long row, or several short ones.
template <typename T, Caching caching>
__global__ void __launch_bounds__(128)
    csr_bins_kernel(RowClasses bins, const int* row_list, const Tile* pieces, CsrView<T> a, const T* x, T* y,
                    T* partial) {
    const Loads<caching> loads;
    const int warp = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (warp >= bins.first_warp[classes + 1]) return;
    const bool is_piece = warp < bins.first_warp[1];
    int row = -1;
    int begin = 0;
    int end = 0;
    int lanes = 32;
    if (is_piece) {
        const Tile piece = pieces[warp];
        begin = piece.first_entry;
        end = piece.last_entry;
        row = piece.last_row;  // below 0: the place of the partial sum
    } else {
        int place = 0;
        while (warp >= bins.first_warp[place + 2]) ++place;
        lanes = 1 << (classes - 1 - place);
        const int index =
            bins.first_row[place] + (warp - bins.first_warp[place + 1]) * (32 / lanes) + lane / lanes;
        if (index < bins.first_row[place + 1]) {
            row = row_list[index];
            begin = a.offsets[row];
            end = a.offsets[row + 1];
        }
    }
    T sum = 0;
    int j = begin + lane % lanes;
    for (; j + (entries_a_lane - 1) * lanes < end; j += entries_a_lane * lanes) {
        T value[entries_a_lane];
        int column[entries_a_lane];
#pragma unroll
        for (int u = 0; u < entries_a_lane; ++u) {
            column[u] = loads.once(a.columns + j + u * lanes);
            value[u] = loads.once(a.values + j + u * lanes);
        }
#pragma unroll
        for (int u = 0; u < entries_a_lane; ++u) sum += value[u] * loads.again(x + column[u]);
    }
#pragma unroll
    for (int u = 0; u < entries_a_lane - 1; ++u) {
        if (j + u * lanes < end) {
            sum +=
                loads.once(a.values + j + u * lanes) * loads.again(x + loads.once(a.columns + j + u * lanes));
        }
    }
    sum = sum_of_lanes(sum, lanes);
    if (lane % lanes != 0) return;
    if (is_piece) {
        partial[-1 - row] = sum;
    } else if (row >= 0) {
        y[row] = sum;
    }
}

/// Rows of a tile are even when none is longer than this many times what its threads would share equally.
constexpr int even_factor = 4;

/// One block per tile, which has at most as many rows as the block has threads. Its entries are copied into
/// shared memory together; then either a group of lanes processes each row (even rows), or all threads first
/// multiply all entries by x and rows are summed afterwards (uneven rows), so that a long row does not delay
/// its block.
template <typename T, int threads, Caching caching>
__global__ void __launch_bounds__(threads)
    csr_tile_kernel(const Tile* tiles, CsrView<T> a, const T* x, T* y, T* partial, int capacity) {
    extern __shared__ __align__(16) unsigned char shared[];
    T* const values = reinterpret_cast<T*>(shared);
    int* const columns = reinterpret_cast<int*>(shared + static_cast<std::size_t>(capacity) * sizeof(T));

    const Loads<caching> loads;
    const Tile tile = tiles[blockIdx.x];
    const int first = tile.first_entry & ~(staging_group - 1);  // copies begin and end at whole groups
    const int count = (tile.last_entry - first + staging_group - 1) & ~(staging_group - 1);
    const int t = static_cast<int>(threadIdx.x);
    stage(values, a.values + first, columns, a.columns + first, count, t, threads, loads);

    const int rows = tile.last_row - tile.first_row;
    if (tile.last_row < 0) {  // a piece of a long row
        stage_end();
        T sum = 0;
        for (int j = tile.first_entry - first + t; j < tile.last_entry - first; j += threads) {
            sum += values[j] * loads.again(x + columns[j]);
        }
        sum = sum_of_lanes(sum, 32);
        __shared__ T of_warps[threads / 32];
        if (t % 32 == 0) of_warps[t / 32] = sum;
        __syncthreads();
        if (t == 0) {
            for (int w = 1; w < threads / 32; ++w) sum += of_warps[w];
            partial[-1 - tile.last_row] = sum;
        }
        return;
    }

    int lanes = 1;
    while (lanes < 32 && 2 * lanes * rows <= threads) lanes *= 2;
    const int mine = t / lanes;
    int begin = 0;
    int end = 0;
    if (mine < rows) {
        begin = a.offsets[tile.first_row + mine] - first;
        end = a.offsets[tile.first_row + mine + 1] - first;
    }
    const int fair = (tile.last_entry - tile.first_entry) / rows;
    const bool uneven = __syncthreads_or(end - begin > even_factor * (fair + lanes)) != 0;
    stage_end();
    if (!uneven) {
        T sum = 0;
#pragma unroll 4
        for (int j = begin + t % lanes; j < end; j += lanes) sum += values[j] * loads.again(x + columns[j]);
        sum = sum_of_lanes(sum, lanes);
        if (mine < rows && t % lanes == 0) y[tile.first_row + mine] = sum;
        return;
    }
#pragma unroll 4
    for (int j = tile.first_entry - first + t; j < tile.last_entry - first; j += threads) {
        values[j] *= loads.again(x + columns[j]);
    }
    __syncthreads();
    // One thread per row; rows beyond a few entries by the whole warp, in turn.
    begin = end = 0;
    if (t < rows) {
        begin = a.offsets[tile.first_row + t] - first;
        end = a.offsets[tile.first_row + t + 1] - first;
    }
    const bool is_long = end - begin > 32;
    T sum = 0;
    if (!is_long) {
        for (int j = begin; j < end; ++j) sum += values[j];
    }
    unsigned left = __ballot_sync(0xffffffffu, is_long);
    while (left != 0) {
        const int owner = __ffs(static_cast<int>(left)) - 1;
        left &= left - 1;
        const int from = __shfl_sync(0xffffffffu, begin, owner);
        const int to = __shfl_sync(0xffffffffu, end, owner);
        T part = 0;
        for (int j = from + t % 32; j < to; j += 32) part += values[j];
        part = sum_of_lanes(part, 32);
        part = __shfl_sync(0xffffffffu, part, 0);
        if (t % 32 == owner) sum = part;
    }
    if (t < rows) y[tile.first_row + t] = sum;
}

/// Adds up the pieces of split rows, one warp per row.
template <typename T>
__global__ void __launch_bounds__(128)
    csr_pieces_kernel(const SplitRow* split, int count, const T* partial, T* y) {
    const int index = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
    if (index >= count) return;
    const SplitRow row = split[index];
    T sum = 0;
    for (int p = row.first_piece + static_cast<int>(threadIdx.x % 32); p < row.last_piece; p += 32)
        sum += partial[p];
    sum = sum_of_lanes(sum, 32);
    if (threadIdx.x % 32 == 0) y[row.row] = sum;
}

/// Merge path: the ends of the rows and the entries are one merged list; every thread takes `items` of it.
constexpr int merge_threads = 128;

/// Number of row ends before position `diagonal` of the merged list of ends[0, rows) and entries.
__host__ __device__ inline int merge_split(const int* ends, int rows, std::int64_t entries,
                                           std::int64_t diagonal) {
    std::int64_t low = diagonal > entries ? diagonal - entries : 0;
    std::int64_t high = diagonal < rows ? diagonal : rows;
    while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (ends[middle] <= diagonal - middle - 1) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return static_cast<int>(low);
}

/// The row at which each block begins: start_rows[b], b from 0 to blocks.
template <int items>
__global__ void merge_starts_kernel(const int* offsets, int rows, int entries, int blocks, int* start_rows) {
    const int b = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (b > blocks) return;
    std::int64_t diagonal = static_cast<std::int64_t>(b) * items * merge_threads;
    const std::int64_t all = static_cast<std::int64_t>(rows) + entries;
    if (diagonal > all) diagonal = all;
    start_rows[b] = merge_split(offsets + 1, rows, entries, diagonal);
}

/// The part of a row that a block leaves to the next one.
template <typename T>
struct Carry {
    int row;
    T sum;
};

template <typename T, int items, Caching caching>
__global__ void __launch_bounds__(merge_threads)
    csr_merge_kernel(CsrView<T> a, int entries, const int* start_rows, const T* x, T* y, Carry<T>* carries) {
    const Loads<caching> loads;
    constexpr int tile = items * merge_threads;
    __shared__ T products[tile];
    __shared__ int ends[tile + 1];
    const int t = static_cast<int>(threadIdx.x);
    const std::int64_t all = static_cast<std::int64_t>(a.rows) + entries;
    const std::int64_t begin = blockIdx.x * static_cast<std::int64_t>(tile);
    const std::int64_t end = begin + tile < all ? begin + tile : all;
    const int first_row = start_rows[blockIdx.x];
    const int last_row = start_rows[blockIdx.x + 1];
    const int first_entry = static_cast<int>(begin - first_row);
    const int last_entry = static_cast<int>(end - last_row);
    const int rows = last_row - first_row;  // that end in this tile
    const int count = last_entry - first_entry;

#pragma unroll
    for (int i = 0; i < items; ++i) {
        const int j = t + i * merge_threads;
        if (j < count) {
            products[j] = loads.once(a.values + first_entry + j) *
                          loads.again(x + loads.once(a.columns + first_entry + j));
        }
    }
    for (int i = t; i < rows; i += merge_threads) ends[i] = a.offsets[first_row + i + 1] - first_entry;
    __syncthreads();

    const int length = static_cast<int>(end - begin);
    const int diagonal = t * items < length ? t * items : length;
    int row = merge_split(ends, rows, count, diagonal);
    int entry = diagonal - row;
    T sum = 0;
    T first_sum = 0;
    int first_done = -1;  // the first row that ends here: its previous entries are in other threads
#pragma unroll
    for (int i = 0; i < items; ++i) {
        if (diagonal + i < length) {
            if (row < rows && ends[row] <= entry) {
                if (first_done < 0) {
                    first_done = row;
                    first_sum = sum;
                } else {
                    y[first_row + row] = sum;
                }
                sum = 0;
                ++row;
            } else {
                sum += products[entry];
                ++entry;
            }
        }
    }
    // Segmented inclusive scan over the threads: the partial sum at the end of thread t of the row that is
    // open there.
    bool closed = first_done >= 0;
    T open = sum;
    for (int offset = 1; offset < 32; offset *= 2) {
        const T before = __shfl_up_sync(0xffffffffu, open, offset);
        const int before_closed = __shfl_up_sync(0xffffffffu, static_cast<int>(closed), offset);
        if (t % 32 >= offset) {
            if (!closed) open += before;
            closed = closed || before_closed != 0;
        }
    }
    __shared__ T warp_open[merge_threads / 32];
    __shared__ bool warp_closed[merge_threads / 32];
    if (t % 32 == 31) {
        warp_open[t / 32] = open;
        warp_closed[t / 32] = closed;
    }
    __syncthreads();
    T into_warp = 0;
    for (int w = 0; w < t / 32; ++w) into_warp = warp_closed[w] ? warp_open[w] : into_warp + warp_open[w];
    T into = __shfl_up_sync(0xffffffffu, open, 1);
    const int into_closed = __shfl_up_sync(0xffffffffu, static_cast<int>(closed), 1);
    if (t % 32 == 0) {
        into = into_warp;
    } else if (into_closed == 0) {
        into += into_warp;
    }
    if (first_done >= 0) y[first_row + first_done] = first_sum + into;
    if (t == merge_threads - 1) {
        carries[blockIdx.x].row = last_row;
        carries[blockIdx.x].sum = closed ? open : open + into_warp;
    }
}

/// Adds the partial sums of blocks to rows completed by later blocks, by the first of the blocks that share a
/// row.
template <typename T>
__global__ void __launch_bounds__(128)
    merge_carries_kernel(const Carry<T>* carries, int blocks, int rows, T* y) {
    int b = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (b >= blocks) return;
    const int row = carries[b].row;
    if (row >= rows || (b > 0 && carries[b - 1].row == row)) return;
    T sum = 0;
    for (; b < blocks && carries[b].row == row; ++b) sum += carries[b].sum;
    y[row] += sum;
}

}  // namespace spmv
