// y = A x for a matrix in CSR without conversion, by warps that read continuously.
#pragma once

#include "programs/spmv/copies.cuh"
#include "programs/spmv/csr_kernels.cuh"

namespace spmv {

/// A tile in transit to shared memory, and the row of it that this lane shares.
struct Underway {
    Tile tile;  ///< first_row < 0: there is none
    int first;  ///< entry at which the copy begins
    int begin;  ///< entries of this lane's row; they are not used before the tile's turn, so that
    int end;    ///< there is no earlier wait for them
};

/// Lanes of a warp that share each of this many rows (1 to 32), as a power of two: as many as available.
__device__ inline int lanes_a_row(int rows) {
    return __clz(rows - 1) - 27;
}

/// Calls step(Number<0>()), step(Number<1>()) and so on while they return true. In a loop that the compiler
/// did not unroll, all arrays indexed by the number would be in local memory.
template <int number>
struct Number {
    static constexpr int value = number;
};
template <int from, int to>
struct Each {
    template <typename Step>
    static __device__ bool run(const Step& step) {
        return step(Number<from>()) && Each<from + 1, to>::run(step);
    }
};
template <int to>
struct Each<to, to> {
    template <typename Step>
    static __device__ bool run(const Step&) {
        return true;
    }
};

/// Each warp processes tiles of at most 32 rows in turn. At any time the warp sums one tile and gathers x for
/// the next one, while the following ones are copied to shared memory. No warp waits for another. The blocks
/// get the tiles in runs of `run`, which the warps of a block share, so that neighbouring rows find x in the
/// same L1.
/// @tparam max_warps of a block: fewer may have more registers each
/// @tparam stages tiles of a warp in shared memory, `capacity` entries each: at least 2
/// @tparam ahead entries of a lane whose x is gathered before the tile's turn
template <typename T, int max_warps, int stages, int ahead, Caching caching>
__global__ void __launch_bounds__(32 * max_warps, 1)
    csr_flow_kernel(const Tile* tiles, int count, int run, CsrView<T> a, const T* x, T* y, T* partial,
                    int capacity) {
    extern __shared__ __align__(16) unsigned char shared[];
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int warps = static_cast<int>(blockDim.x / 32);
    const std::size_t stage_bytes = static_cast<std::size_t>(capacity) * (sizeof(T) + sizeof(int));
    unsigned char* const mine = shared + threadIdx.x / 32 * stages * stage_bytes;
    const Loads<caching> loads;
    __shared__ unsigned long long barriers[max_warps * stages];
    Copies<stages, caching> copies(barriers + threadIdx.x / 32 * stages);

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
    const auto values_of = [&](int s) {
        return reinterpret_cast<T*>(mine + static_cast<std::size_t>(s) * stage_bytes);
    };
    const auto columns_of = [&](int s) { return reinterpret_cast<int*>(values_of(s) + capacity); };
    const auto power_of = [](const Tile& tile) {
        return tile.last_row < 0 ? 5 : lanes_a_row(tile.last_row - tile.first_row);
    };

    Tile next = next_tile();
    Underway underway[stages];
    T gathered[stages][ahead];
    const auto begin_copy = [&](int s) {
        Underway& one = underway[s];
        one.tile = next;
        one.begin = one.end = 0;
        if (next.first_row >= 0) {
            one.first = next.first_entry & ~(staging_group - 1);
            const int copied = (next.last_entry - one.first + staging_group - 1) & ~(staging_group - 1);
            copies.begin(s, values_of(s), a.values + one.first, columns_of(s), a.columns + one.first, copied,
                         loads);
            if (next.last_row < 0) {
                one.begin = next.first_entry;
                one.end = next.last_entry;
            } else {
                const int row = next.first_row + (lane >> power_of(next));
                if (row < next.last_row) {
                    one.begin = __ldg(a.offsets + row);
                    one.end = __ldg(a.offsets + row + 1);
                }
            }
            next = next_tile();
        }
        copies.commit();
    };
    const auto gather = [&](auto place, auto but) {
        constexpr int s = decltype(place)::value;
        const Underway& one = underway[s];
#pragma unroll
        for (int u = 0; u < ahead; ++u)
            gathered[s][u] = 0;  // otherwise the compiler would keep their previous values
        if (one.tile.first_row < 0) return;
        copies.template wait<decltype(but)::value>(s);
        const int power = power_of(one.tile);
        const int* const column = columns_of(s) + (one.begin - one.first + (lane & ((1 << power) - 1)));
        const int left = one.end - one.begin - (lane & ((1 << power) - 1));
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            if (u << power < left) gathered[s][u] = loads.again(x + column[u << power]);
        }
    };

    Each<0, stages>::run([&](auto place) {
        begin_copy(decltype(place)::value);
        return true;
    });
    gather(Number<0>(), Number<stages - 1>());

    const auto step = [&](auto place) {
        constexpr int s = decltype(place)::value;
        const Underway one = underway[s];
        if (one.tile.first_row < 0) return false;
        gather(Number<(s + 1) % stages>(), Number<stages - 2>());

        const int power = power_of(one.tile);
        const int lane_of_row = lane & ((1 << power) - 1);
        const T* const value = values_of(s) + (one.begin - one.first + lane_of_row);
        const int* const column = columns_of(s) + (one.begin - one.first + lane_of_row);
        const int left = one.end - one.begin - lane_of_row;
        T sum = 0;
#pragma unroll
        for (int u = 0; u < ahead; ++u) {
            if (u << power < left) sum += value[u << power] * gathered[s][u];
        }
        for (int j = ahead << power; j < left; j += 1 << power) {  // of longer rows
            sum += value[j] * loads.again(x + column[j]);
        }
        sum = sum_of_lanes(sum, 1 << power);
        const int row = one.tile.first_row + (lane >> power);
        if (one.tile.last_row < 0) {
            if (lane == 0) partial[-1 - one.tile.last_row] = sum;
        } else if (lane_of_row == 0 && row < one.tile.last_row) {
            __stcs(y + row, sum);
        }
        __syncwarp();
        begin_copy(s);
        return true;
    };
    while (Each<0, stages>::run(step)) {
    }
}

}  // namespace spmv
