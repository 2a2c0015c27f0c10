// The Jacobi step of Himeno on a GPU. Nearly all of its traffic is twelve coefficients that are read once. It
// needs many wide loads in flight, and a sum of squares (gosa) at negligible cost.
#pragma once

#include <cuda_runtime.h>

#include "lib/cuda/block_sum.cuh"
#include "programs/himeno/grid.h"

namespace himeno {

/// The coefficients in the order of Name.
struct Coefficients {
    const float* of[coefficients];
};

/// Four adjacent cells along k, and their left and right neighbours.
struct Row {
    float4 v;
    float left;
    float right;
    /// The value at k + e for e in -1 .. 4.
    __device__ float at(int e) const {
        switch (e) {
            case -1:
                return left;
            case 0:
                return v.x;
            case 1:
                return v.y;
            case 2:
                return v.z;
            case 3:
                return v.w;
            default:
                return right;
        }
    }
};

/// The neighbours of a row of four from the adjacent lanes; the first and the last lane load theirs. All
/// lanes of the warp must call it.
__device__ inline Row with_neighbours(float4 v, const float* p, std::size_t cell, std::size_t cells) {
    const unsigned lane = threadIdx.x % 32;
    Row row;
    row.v = v;
    row.left = __shfl_up_sync(0xffffffffu, v.w, 1);
    row.right = __shfl_down_sync(0xffffffffu, v.x, 1);
    if (lane == 0 || lane == 31) {
        const std::size_t beside =
            lane == 0 ? (cell == 0 ? 0 : cell - 1) : (cell + 4 < cells ? cell + 4 : cell);
        const float value = __ldg(p + beside);
        if (lane == 0) {
            row.left = value;
        } else {
            row.right = value;
        }
    }
    return row;
}

__device__ inline float4 load_four(const float* array, std::size_t cell) {
    return __ldg(reinterpret_cast<const float4*>(array + cell));
}
__device__ inline float4 load_once(const float* array, std::size_t cell) {
    return __ldcs(reinterpret_cast<const float4*>(array + cell));
}

/// Component e of four.
__device__ inline float part(const float4& v, int e) {
    return e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w;
}

/// One iteration. A thread owns four cells along k and marches through `march` planes; the pressure of the
/// three current planes stays in registers. `partial` gets a sum of squares of each block, in the order of
/// the grid. The arrays' nk must be a multiple of 4, blockDim.x of 32; `from` and `to` agree on the boundary.
template <int march, int block_x, int block_y>
__global__ void __launch_bounds__(block_x* block_y)
    jacobi(Grid grid, Coefficients c, const float* __restrict__ from, float* __restrict__ to,
           float* partial) {
    const std::size_t plane = grid.plane();
    const std::size_t cells = grid.cells();
    const auto nk = static_cast<std::size_t>(grid.nk);
    const int k = 4 * static_cast<int>(blockIdx.x * block_x + threadIdx.x);
    const int j = 1 + static_cast<int>(blockIdx.y * block_y + threadIdx.y);
    const int first = 1 + static_cast<int>(blockIdx.z) * march;
    const int end = min(first + march, grid.ni - 1);
    const bool inside = k < grid.nk && j < grid.nj - 1;
    // Threads beyond the grid compute on an existing cell, since shuffles need whole warps.
    const std::size_t column =
        static_cast<std::size_t>(inside ? j : 1) * nk + static_cast<std::size_t>(k < grid.nk ? k : 0);
    std::size_t cell = static_cast<std::size_t>(first) * plane + column;

    float4 south_before = load_four(from, cell - plane - nk);
    float4 north_before = load_four(from, cell - plane + nk);
    Row before = with_neighbours(load_four(from, cell - plane), from, cell - plane, cells);
    float4 south = load_four(from, cell - nk);
    float4 north = load_four(from, cell + nk);
    Row here = with_neighbours(load_four(from, cell), from, cell, cells);
    float sum = 0;
#pragma unroll 1
    for (int i = first; i < end; ++i) {
        float4 coefficient[coefficients];
#pragma unroll
        for (int n = 0; n < coefficients; ++n) coefficient[n] = load_once(c.of[n], cell);
        const float4 south_after = load_four(from, cell + plane - nk);
        const float4 north_after = load_four(from, cell + plane + nk);
        const Row after = with_neighbours(load_four(from, cell + plane), from, cell + plane, cells);
        const Row south_row = with_neighbours(south, from, cell - nk, cells);
        const Row north_row = with_neighbours(north, from, cell + nk, cells);
        float result[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float ss = correction<float>(
                [&](int n) { return part(coefficient[n], e); },
                [&](int di, int dj, int dk) {
                    if (di == 0)
                        return dj == 0  ? here.at(e + dk)
                               : dj < 0 ? south_row.at(e + dk)
                                        : north_row.at(e + dk);
                    if (di < 0)
                        return dj == 0  ? before.at(e + dk)
                               : dj < 0 ? part(south_before, e)
                                        : part(north_before, e);
                    return dj == 0 ? after.at(e + dk) : dj < 0 ? part(south_after, e) : part(north_after, e);
                });
            const bool changes = k + e > 0 && k + e < grid.nk - 1;
            const float kept = changes ? ss : 0.0F;
            sum += inside ? kept * kept : 0.0F;
            result[e] = here.at(e) + omega * kept;
        }
        if (inside) {
            __stcs(reinterpret_cast<float4*>(to + cell),
                   make_float4(result[0], result[1], result[2], result[3]));
        }
        south_before = south;
        north_before = north;
        before = here;
        south = south_after;
        north = north_after;
        here = after;
        cell += plane;
    }

    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
    constexpr int warps = block_x * block_y / 32;
    __shared__ float of_warps[warps];
    const int thread = static_cast<int>(threadIdx.y) * block_x + static_cast<int>(threadIdx.x);
    if (thread % 32 == 0) of_warps[thread / 32] = sum;
    __syncthreads();
    if (thread == 0) {
        float total = 0;
#pragma unroll
        for (int w = 0; w < warps; ++w) total += of_warps[w];
        partial[(static_cast<std::size_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] =
            total;
    }
}

/// gosa = the sum of the partial sums, in double and always in the same order. One block.
__global__ void __launch_bounds__(1024) add_up(const float* partial, std::size_t count, double* gosa) {
    double sum = 0;
    for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) sum += static_cast<double>(partial[i]);
    sum = tenken::cuda::block_sum(sum);
    if (threadIdx.x == 0) *gosa = sum;
}

}  // namespace himeno
