// The steps on a GPU. All neighbours of a cell come from caches or registers, so memory traffic is one read
// and one write per cell. The limits are the number of loads in flight and the number of cache accesses.
#pragma once

#include <cuda_runtime.h>

#include "programs/stencil/grid.h"

namespace stencil {

/// A slab for kernels: planes are counted from the first of its memory.
struct View {
    int nx;
    int ny;
    int pitch;
    std::size_t plane;
};

/// Planes [begin, end) of the slab's memory, processed by blocks of `chunk` planes.
struct Planes {
    int begin;
    int end;
    __host__ __device__ int chunks(int chunk) const {
        return end > begin ? (end - begin + chunk - 1) / chunk : 0;
    }
};

/// The work of one launch: two ranges of planes.
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
        *reinterpret_cast<typename Pack<T>::type*>(row + x) = pack_of(cells);
        return;
    }
#pragma unroll
    for (int e = 0; e < n; ++e) {
        if (x + e >= first && x + e < end) row[x + e] = cells[e];
    }
}

/// Minimum blocks per multiprocessor: with 7 points and two rows 24 warps fit, with this hint to the
/// compiler.
template <int points, int rows>
constexpr int min_blocks(int warps) {
    return points == 7 && rows == 2 ? 24 / warps : 1;
}

/// One step. A thread owns 16 bytes of cells in each of `rows` rows and moves upward through the planes of
/// its block. It adds every plane to the sums of the three adjacent planes, so that it needs only one plane
/// at a time, while the next one is being loaded. Neighbours in x come from adjacent lanes.
template <typename T, int points, int rows, int warps_x, int warps_y, int unrolled>
__global__ void __launch_bounds__(32 * warps_x * warps_y, min_blocks<points, rows>(warps_x* warps_y))
    step_kernel(const T* __restrict__ from, T* __restrict__ to, View g, Coefficients<T> c, Work work) {
    typedef typename Pack<T>::type V;
    constexpr int n = Pack<T>::cells;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int column = (static_cast<int>(blockIdx.x) * 32 * warps_x + static_cast<int>(threadIdx.x)) * n;
    const bool inside = column < g.pitch;
    // Threads beyond the grid compute on existing cells, since shuffles need whole warps.
    const int x = min(column, g.pitch - n);
    const int y = min(1 + (static_cast<int>(blockIdx.y) * warps_y + static_cast<int>(threadIdx.y)) * rows,
                      g.ny - 1 - rows);
    const Planes planes = work.of_block(static_cast<int>(blockIdx.z));
    const bool edge = lane == 0 || lane == 31;
    const int beside = lane == 0 ? -1 : n;
    const T* p = from + static_cast<std::size_t>(planes.begin - 1) * g.plane +
                 static_cast<std::size_t>(y - 1) * static_cast<std::size_t>(g.pitch) +
                 static_cast<std::size_t>(x);
    T* q = to + static_cast<std::size_t>(planes.begin) * g.plane +
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
    T below[rows][n];  // the sum of the plane below the current one, in which only the current one is missing
    T here[rows][n];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
        for (int e = 0; e < n; ++e) below[r][e] = here[r][e] = 0;
    }
#pragma unroll unrolled
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
                store(q + static_cast<std::size_t>(r) * static_cast<std::size_t>(g.pitch), x, 1, g.nx - 1,
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

/// 16 bytes from global into shared memory, bypassing registers if the GPU supports it (8.0 and later).
__device__ inline void copy_in(void* shared, const void* global) {
#if __CUDA_ARCH__ >= 800
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
#else
    *static_cast<int4*>(shared) = *static_cast<const int4*>(global);
#endif
}
/// Ends a group of copies.
__device__ inline void end_group() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until at most `later` groups are still in flight.
template <int later>
__device__ inline void wait_for_groups() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
#endif
}

/// The tile of a block for two steps: its cells, and a border of one row above and below and of one pack
/// on either side.
template <typename T, int rows, int warps_x, int warps_y>
struct Tile {
    static constexpr int n = Pack<T>::cells;
    static constexpr int width = 32 * warps_x * n;
    static constexpr int height = rows * warps_y;
    static constexpr int stride = width + 2 * n;
    static constexpr int elements = (height + 2) * stride;
    static constexpr int threads = 32 * warps_x * warps_y;
    /// Distance between tiles: the valid cells after two steps are half a pack and one row inside.
    static constexpr int step_x = width - n;
    static constexpr int step_y = height - 2;
};

/// Planes in flight into shared memory; two more contain planes after one step.
constexpr int stages = 3;

/// Two steps per read of the grid. Planes are loaded into a ring in shared memory. Each thread computes the
/// first step of its cells as in step_kernel and stores the result in shared memory, from which the second
/// step is computed one plane later. Cells at the border of a tile are computed by several blocks, and planes
/// z <= low or z >= high are fixed.
template <typename T, int points, int rows, int warps_x, int warps_y>
__global__ void __launch_bounds__(32 * warps_x * warps_y)
    two_steps_kernel(const T* __restrict__ from, T* __restrict__ to, View g, Coefficients<T> c, Work work,
                     int low, int high) {
    typedef Tile<T, rows, warps_x, warps_y> K;
    typedef typename Pack<T>::type V;
    constexpr int n = K::n;
    constexpr int in_row = K::stride / n;
    constexpr int all = (K::height + 2) * in_row;
    constexpr int pieces = (all + K::threads - 1) / K::threads;
    extern __shared__ __align__(16) unsigned char memory[];
    T* const ring = reinterpret_cast<T*>(memory);
    T* const once = ring + stages * K::elements;
    const int thread = static_cast<int>(threadIdx.y) * 32 * warps_x + static_cast<int>(threadIdx.x);
    const int x0 = static_cast<int>(blockIdx.x) * K::step_x;
    const int x = x0 + static_cast<int>(threadIdx.x) * n;
    const int y0 = static_cast<int>(blockIdx.y) * K::step_y;
    const int row = static_cast<int>(threadIdx.y) * rows;  // of the tile
    const Planes planes = work.of_block(static_cast<int>(blockIdx.z));
    const int first = planes.begin - 2;  // the first plane to be read
    const int count = planes.end - planes.begin + 4;
    int offset[pieces];
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
        const int piece = thread + i * K::threads;
        const int y = min(max(y0 - 1 + piece / in_row, 0), g.ny - 1);
        offset[i] = y * g.pitch + x0 - n + piece % in_row * n;
    }
    const auto fetch = [&](int p) {
        if (p < count) {
            // Data outside the fixed planes is not needed, so any plane will do.
            const int z = min(max(first + p, low), high);
            const T* const base =
                from + static_cast<std::ptrdiff_t>(z) * static_cast<std::ptrdiff_t>(g.plane);
            T* const stage = ring + p % stages * K::elements;
#pragma unroll
            for (int i = 0; i < pieces; ++i) {
                const int piece = thread + i * K::threads;
                if (piece < all) copy_in(stage + piece * n, base + offset[i]);
            }
        }
        end_group();
    };
    for (int p = 0; p < stages - 1; ++p) fetch(p);

    T below[2][rows][n];  // the sums of the first and the second step, as in step_kernel
    T here[2][rows][n];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
        for (int r = 0; r < rows; ++r) {
#pragma unroll
            for (int e = 0; e < n; ++e) below[s][r][e] = here[s][r][e] = 0;
        }
    }
    const int mine = row * K::stride + (static_cast<int>(threadIdx.x) + 1) * n;
    T v[rows + 2][n + 2];
    const auto read = [&](const T* plane) {
#pragma unroll
        for (int r = 0; r < rows + 2; ++r) {
            const T* const cells = plane + mine + r * K::stride;
            const V pack = *reinterpret_cast<const V*>(cells);
#pragma unroll
            for (int e = 0; e < n; ++e) v[r][e + 1] = cell_of(pack, e);
            if (points == 27 || (r > 0 && r <= rows)) {
                v[r][0] = cells[-1];
                v[r][n + 1] = cells[n];
            }
        }
    };
    const bool rim = x0 == 0 || x0 + K::width >= g.nx - 1 || y0 == 0 || y0 + K::height >= g.ny - 1;
    const auto fixed_cell = [&](int r, int e) {
        return rim && (x + e <= 0 || x + e >= g.nx - 1 || y0 + row + r <= 0 || y0 + row + r >= g.ny - 1);
    };
    // The tile at the low end of the grid has no border there: its outermost cells are fixed.
    const int first_x = x0 == 0 ? 1 : x0 + n / 2;
    const int end_x = min(x0 + K::width - n / 2, g.nx - 1);
#pragma unroll 2
    for (int p = 0; p <= count; ++p) {
        const int z = first + p;
        wait_for_groups<stages - 2>();
        __syncthreads();
        fetch(p + stages - 1);
        if (p < count) {
            read(ring + p % stages * K::elements);
            const bool fixed_before = z - 1 <= low || z - 1 >= high;
            const bool fixed = z <= low || z >= high;
            T* const done =
                once + (p + 1) % 2 * K::elements + mine + K::stride;  // plane z - 1 after one step
#pragma unroll
            for (int r = 0; r < rows; ++r) {
#pragma unroll
                for (int e = 0; e < n; ++e) {
                    const auto at = [&](int dy, int dx) { return v[r + 1 + dy][e + 1 + dx]; };
                    const T sum = add_plane<points, 1>(c, at, below[0][r][e]);
                    if (!fixed_before && !fixed_cell(r, e)) below[0][r][e] = sum;
                }
                *reinterpret_cast<V*>(done + r * K::stride) = pack_of(below[0][r]);
            }
#pragma unroll
            for (int r = 0; r < rows; ++r) {
#pragma unroll
                for (int e = 0; e < n; ++e) {
                    const auto at = [&](int dy, int dx) { return v[r + 1 + dy][e + 1 + dx]; };
                    const T sum = add_plane<points, 0>(c, at, here[0][r][e]);
                    below[0][r][e] = fixed || fixed_cell(r, e) ? at(0, 0) : sum;
                    here[0][r][e] = add_plane<points, -1>(c, at, T(0));
                }
            }
        }
        if (p < 2) continue;
        read(once + p % 2 * K::elements);  // plane z - 2 after one step
        const std::size_t q = static_cast<std::size_t>(z - 3) * g.plane;
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            const int y = y0 + row + r;
#pragma unroll
            for (int e = 0; e < n; ++e) {
                const auto at = [&](int dy, int dx) { return v[r + 1 + dy][e + 1 + dx]; };
                below[1][r][e] = add_plane<points, 1>(c, at, below[1][r][e]);
            }
            if (p > 4 && row + r > 0 && row + r < K::height - 1 && y < g.ny - 1) {
                store(to + q + static_cast<std::size_t>(y) * static_cast<std::size_t>(g.pitch), x, first_x,
                      end_x, below[1][r]);
            }
        }
#pragma unroll
        for (int r = 0; r < rows; ++r) {
#pragma unroll
            for (int e = 0; e < n; ++e) {
                const auto at = [&](int dy, int dx) { return v[r + 1 + dy][e + 1 + dx]; };
                below[1][r][e] = add_plane<points, 0>(c, at, here[1][r][e]);
                here[1][r][e] = add_plane<points, -1>(c, at, T(0));
            }
        }
    }
}

}  // namespace stencil
