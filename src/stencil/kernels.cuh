// The steps on a GPU. All neighbours of a cell come from the caches or from registers, so that the memory sees each cell
// once read and once written; what limits is how many loads are under way, and how often the caches are asked.
#pragma once

#include <cuda_runtime.h>

#include "stencil/grid.h"

namespace stencil {

/// A slab as kernels see it: planes are counted from the first of its memory.
struct View {
    int nx;
    int ny;
    int pitch;
    std::size_t plane;
};

/// Planes [begin, end) of the slab's memory, done by blocks of `chunk` planes.
struct Planes {
    int begin;
    int end;
    __host__ __device__ int chunks(int chunk) const { return end > begin ? (end - begin + chunk - 1) / chunk : 0; }
};

/// What is done in one launch: two ranges of planes.
struct Work {
    Planes one;
    Planes other;
    int chunk;
    __host__ __device__ int chunks() const { return one.chunks(chunk) + other.chunks(chunk); }
    /// The planes of a block of the grid's third dimension.
    __device__ Planes of_block(int block) const {
        const int first = one.chunks(chunk);
        const Planes all = block < first ? one : other;
        const int begin = all.begin + (block < first ? block : block - first) * chunk;
        return {begin, min(begin + chunk, all.end)};
    }
};

/// 16 bytes of cells.
template <typename T>
struct Pack;
template <>
struct Pack<double> {
    typedef double2 type;
    static constexpr int cells = 2;
};
template <>
struct Pack<float> {
    typedef float4 type;
    static constexpr int cells = 4;
};
__device__ inline double cell_of(const double2& pack, int e) {
    return e == 0 ? pack.x : pack.y;
}
__device__ inline float cell_of(const float4& pack, int e) {
    return e == 0 ? pack.x : e == 1 ? pack.y : e == 2 ? pack.z : pack.w;
}
__device__ inline double2 pack_of(const double* cells) {
    return make_double2(cells[0], cells[1]);
}
__device__ inline float4 pack_of(const float* cells) {
    return make_float4(cells[0], cells[1], cells[2], cells[3]);
}

/// Stores 16 bytes of a row, but not the cells outside [first, end).
template <typename T>
__device__ inline void store(T* row, int x, int first, int end, const T* cells) {
    constexpr int n = Pack<T>::cells;
    if (x >= first && x + n <= end) {
        __stcs(reinterpret_cast<typename Pack<T>::type*>(row + x), pack_of(cells));
        return;
    }
#pragma unroll
    for (int e = 0; e < n; ++e) {
        if (x + e >= first && x + e < end) row[x + e] = cells[e];
    }
}

/// One step. A thread owns 16 bytes of cells in each of `rows` rows and goes upward through the planes of its block. Of
/// every plane it adds to the sums of the three planes around, so that it needs only one plane at a time, and the next one
/// is already on its way. Neighbours in x come from the lanes beside.
template <typename T, int points, int rows, int warps_x, int warps_y>
__global__ void __launch_bounds__(32 * warps_x* warps_y)
    step_kernel(const T* __restrict__ from, T* __restrict__ to, View g, Coefficients<T> c, Work work) {
    typedef typename Pack<T>::type V;
    constexpr int n = Pack<T>::cells;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int column = (static_cast<int>(blockIdx.x) * 32 * warps_x + static_cast<int>(threadIdx.x)) * n;
    const bool inside = column < g.pitch;
    // Threads beyond the grid go through the motions at cells that exist: shuffles need whole warps.
    const int x = min(column, g.pitch - n);
    const int y = min(1 + (static_cast<int>(blockIdx.y) * warps_y + static_cast<int>(threadIdx.y)) * rows,
                      g.ny - 1 - rows);
    const Planes planes = work.of_block(static_cast<int>(blockIdx.z));
    const bool edge = lane == 0 || lane == 31;
    const int beside = lane == 0 ? -1 : n;
    const T* p = from + static_cast<std::size_t>(planes.begin - 1) * g.plane +
                 static_cast<std::size_t>(y - 1) * static_cast<std::size_t>(g.pitch) + static_cast<std::size_t>(x);
    std::size_t q = static_cast<std::size_t>(planes.begin) * g.plane +
                    static_cast<std::size_t>(y) * static_cast<std::size_t>(g.pitch);
    V next[rows + 2];
    T next_edge[rows + 2];
    const auto load = [&] {
#pragma unroll
        for (int r = 0; r < rows + 2; ++r) {
            const T* const row = p + static_cast<std::size_t>(r) * static_cast<std::size_t>(g.pitch);
            next[r] = __ldg(reinterpret_cast<const V*>(row));
            if ((points == 27 || (r > 0 && r <= rows)) && edge) next_edge[r] = __ldg(row + beside);
        }
        p += g.plane;
    };
    load();
    T below[rows][n];  // the sum of the plane below the one that is read: it lacks only that one
    T here[rows][n];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
        for (int e = 0; e < n; ++e) below[r][e] = here[r][e] = 0;
    }
#pragma unroll 2
    for (int z = planes.begin - 1; z <= planes.end; ++z) {
        T v[rows + 2][n + 2];
#pragma unroll
        for (int r = 0; r < rows + 2; ++r) {
#pragma unroll
            for (int e = 0; e < n; ++e) v[r][e + 1] = cell_of(next[r], e);
            if (points == 27 || (r > 0 && r <= rows)) {
                v[r][0] = __shfl_up_sync(0xffffffffu, v[r][n], 1);
                v[r][n + 1] = __shfl_down_sync(0xffffffffu, v[r][1], 1);
                if (lane == 0) v[r][0] = next_edge[r];
                if (lane == 31) v[r][n + 1] = next_edge[r];
            }
        }
        if (z < planes.end) load();
#pragma unroll
        for (int r = 0; r < rows; ++r) {
#pragma unroll
            for (int e = 0; e < n; ++e) {
                const auto at = [&](int dy, int dx) { return v[r + 1 + dy][e + 1 + dx]; };
                below[r][e] = add_plane<points, 1>(c, at, below[r][e]);
            }
            if (z > planes.begin && inside) {
                store(to + q + static_cast<std::size_t>(r) * static_cast<std::size_t>(g.pitch), x, 1, g.nx - 1,
                      below[r]);
            }
        }
        if (z > planes.begin) q += g.plane;
#pragma unroll
        for (int r = 0; r < rows; ++r) {
#pragma unroll
            for (int e = 0; e < n; ++e) {
                const auto at = [&](int dy, int dx) { return v[r + 1 + dy][e + 1 + dx]; };
                below[r][e] = add_plane<points, 0>(c, at, here[r][e]);
                here[r][e] = add_plane<points, -1>(c, at, T(0));
            }
        }
    }
}

}  // namespace stencil
