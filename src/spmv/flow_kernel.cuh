// y = A x for a matrix in compressed rows (CSR), as it was given, by warps that never stop reading.
#pragma once

#include "spmv/csr_kernels.cuh"

namespace spmv {

constexpr int flow_most_threads = 512;

/// A tile on its way to shared memory, and the row of it that this lane has a part in.
struct Underway {
    Tile tile;  ///< first_row < 0: there is none
    int first;  ///< entry at which the copy begins
    int begin;  ///< entries of this lane's row; nothing is done with them before the tile's turn, so that
    int end;    ///< nobody waits for them earlier
};

/// Lanes of a warp that share each of so many rows (1 to 32), as a power of two: as many as there are.
__device__ inline int lanes_a_row(int rows) {
    return __clz(rows - 1) - 27;
}

/// The part of a row that begins at `begin` and goes on every `step` entries. @tparam unroll gathers under way
template <int unroll, typename T, Caching caching>
__device__ inline T sum_staged(const T* values, const int* columns, int begin, int end, int step, const T* x,
                               const Loads<caching>& loads) {
    T sum = 0;
    for (int j = begin; j < end; j += unroll * step) {
        T gathered[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (j + u * step < end) gathered[u] = loads.again(x + columns[j + u * step]);
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (j + u * step < end) sum += values[j + u * step] * gathered[u];
        }
    }
    return sum;
}

/// A warp a tile of at most 32 rows, one tile after the other: while it sums one out of shared memory, the
/// next ones are on their way there. No warp waits for another. The blocks deal the tiles out in runs of
/// `run`, which the warps of a block share, so that neighbouring rows find x in the same L1.
/// @tparam stages tiles of a warp in shared memory, `capacity` entries each
template <typename T, int stages, int unroll, Caching caching>
__global__ void __launch_bounds__(flow_most_threads, 1)
    csr_flow_kernel(const Tile* tiles, int count, int run, CsrView<T> a, const T* x, T* y, T* partial,
                    int capacity) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warps = static_cast<int>(blockDim.x / 32);
    const std::size_t stage_bytes = static_cast<std::size_t>(capacity) * (sizeof(T) + sizeof(int));
    unsigned char* const mine = shared + threadIdx.x / 32 * stages * stage_bytes;
    const Loads<caching> loads;

    int first_of_run = static_cast<int>(blockIdx.x) * run;
    int in_run = static_cast<int>(threadIdx.x / 32);
    const auto next_tile = [&] {
        while (in_run >= run) {
            in_run -= run;
            first_of_run += static_cast<int>(gridDim.x) * run;
        }
        Tile tile = {-1, 0, 0, 0};
        if (first_of_run + in_run < count) {
            const int4 four = __ldg(reinterpret_cast<const int4*>(tiles) + first_of_run + in_run);
            tile = {four.x, four.y, four.z, four.w};
        }
        in_run += warps;
        return tile;
    };

    Tile next = next_tile();
    Underway underway[stages];
    const auto begin_copy = [&](int s) {
        Underway& one = underway[s];
        one.tile = next;
        one.begin = one.end = 0;
        if (next.first_row >= 0) {
            T* const values = reinterpret_cast<T*>(mine + static_cast<std::size_t>(s) * stage_bytes);
            int* const columns = reinterpret_cast<int*>(values + capacity);
            one.first = next.first_entry & ~(staging_group - 1);
            const int copied = (next.last_entry - one.first + staging_group - 1) & ~(staging_group - 1);
            stage(values, a.values + one.first, columns, a.columns + one.first, copied, lane, 32, loads);
            if (next.last_row < 0) {
                one.begin = next.first_entry;
                one.end = next.last_entry;
            } else {
                const int rows = next.last_row - next.first_row;
                const int row = lane >> lanes_a_row(rows);
                if (row < rows) {
                    one.begin = __ldg(a.offsets + next.first_row + row);
                    one.end = __ldg(a.offsets + next.first_row + row + 1);
                }
            }
            next = next_tile();
        }
        stage_commit();
    };
#pragma unroll
    for (int s = 0; s < stages; ++s) begin_copy(s);

    for (;;) {
#pragma unroll
        for (int s = 0; s < stages; ++s) {
            const Underway one = underway[s];
            if (one.tile.first_row < 0) return;
            stage_wait<stages - 1>();
            const T* const values = reinterpret_cast<const T*>(mine + static_cast<std::size_t>(s) * stage_bytes);
            const int* const columns = reinterpret_cast<const int*>(values + capacity);
            const bool is_piece = one.tile.last_row < 0;
            const int power = is_piece ? 5 : lanes_a_row(one.tile.last_row - one.tile.first_row);
            const int lanes = 1 << power;
            const int lane_of_row = lane & (lanes - 1);
            const int row = one.tile.first_row + (lane >> power);
            T sum = sum_staged<unroll>(values, columns, one.begin - one.first + lane_of_row,
                                       one.end - one.first, lanes, x, loads);
            sum = sum_of_lanes(sum, lanes);
            if (is_piece) {
                if (lane == 0) partial[-1 - one.tile.last_row] = sum;
            } else if (lane_of_row == 0 && row < one.tile.last_row) {
                __stcs(y + row, sum);
            }
            __syncwarp();
            begin_copy(s);
        }
    }
}

}  // namespace spmv
