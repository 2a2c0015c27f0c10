// Out-of-place transposes of a matrix of floats stored by rows: to[c][r] = from[r][c].
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace transpose {

/// One thread per element: rows are read in order, columns written with a stride.
__global__ void naive_kernel(float* to, const float* from, int rows, int columns) {
    const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    const int r = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
    if (c >= columns || r >= rows) return;
    to[static_cast<std::size_t>(c) * static_cast<std::size_t>(rows) + static_cast<std::size_t>(r)] =
        from[static_cast<std::size_t>(r) * static_cast<std::size_t>(columns) + static_cast<std::size_t>(c)];
}

/// A square tile is staged through shared memory, so that both global accesses are by rows. Blocks of tile x
/// lines threads.
/// @tparam padding 0: the column of a tile is in one bank; 1: in all of them
template <int tile, int lines, int padding>
__global__ void __launch_bounds__(tile* lines)
    tile_kernel(float* to, const float* from, int rows, int columns) {
    __shared__ float shared[tile][tile + padding];
    const int x = static_cast<int>(threadIdx.x);
    const int y = static_cast<int>(threadIdx.y);
    const int c = static_cast<int>(blockIdx.x) * tile + x;
    const int r = static_cast<int>(blockIdx.y) * tile + y;
#pragma unroll
    for (int line = 0; line < tile; line += lines) {
        if (c < columns && r + line < rows) {
            shared[y + line][x] =
                from[static_cast<std::size_t>(r + line) * static_cast<std::size_t>(columns) +
                     static_cast<std::size_t>(c)];
        }
    }
    __syncthreads();
    const int to_c = static_cast<int>(blockIdx.y) * tile + x;
    const int to_r = static_cast<int>(blockIdx.x) * tile + y;
#pragma unroll
    for (int line = 0; line < tile; line += lines) {
        if (to_c < rows && to_r + line < columns) {
            to[static_cast<std::size_t>(to_r + line) * static_cast<std::size_t>(rows) +
               static_cast<std::size_t>(to_c)] = shared[x][y + line];
        }
    }
}

template <int width>
struct Vector;
template <>
struct Vector<2> {
    typedef float2 type;
};
template <>
struct Vector<4> {
    typedef float4 type;
};

/// The padded tile with accesses of `width` floats: rows and columns must be multiples of it.
template <int tile, int threads, int width>
__global__ void __launch_bounds__(threads) wide_kernel(float* to, const float* from, int rows, int columns) {
    typedef typename Vector<width>::type Wide;
    constexpr int in_a_row = tile / width;
    constexpr int turns = tile * in_a_row / threads;
    __shared__ float shared[tile][tile + 1];
    const int c0 = static_cast<int>(blockIdx.x) * tile;
    const int r0 = static_cast<int>(blockIdx.y) * tile;
    Wide values[turns];
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
        const int at = static_cast<int>(threadIdx.x) + turn * threads;
        const int r = r0 + at / in_a_row;
        const int c = c0 + at % in_a_row * width;
        if (r < rows && c < columns) {
            values[turn] = __ldcs(reinterpret_cast<const Wide*>(
                from + static_cast<std::size_t>(r) * static_cast<std::size_t>(columns) +
                static_cast<std::size_t>(c)));
        }
    }
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
        const int at = static_cast<int>(threadIdx.x) + turn * threads;
#pragma unroll
        for (int e = 0; e < width; ++e) {
            shared[at / in_a_row][at % in_a_row * width + e] =
                reinterpret_cast<const float*>(&values[turn])[e];
        }
    }
    __syncthreads();
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
        const int at = static_cast<int>(threadIdx.x) + turn * threads;
        const int c = at / in_a_row;
        const int r = at % in_a_row * width;
        if (c0 + c < columns && r0 + r < rows) {
            Wide value;
#pragma unroll
            for (int e = 0; e < width; ++e) reinterpret_cast<float*>(&value)[e] = shared[r + e][c];
            __stcs(reinterpret_cast<Wide*>(to +
                                           static_cast<std::size_t>(c0 + c) * static_cast<std::size_t>(rows) +
                                           static_cast<std::size_t>(r0 + r)),
                   value);
        }
    }
}

}  // namespace transpose
