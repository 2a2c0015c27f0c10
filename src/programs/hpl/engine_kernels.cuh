// Kernels of the factorisation other than panels: generation of the matrix, row exchanges, inversion of
// triangles, verification of the solution.
#pragma once

#include <cuda_runtime.h>

#include "programs/hpl/gpu_engine.h"
#include "programs/hpl/gpu_panel.h"

namespace hpl {

namespace {

constexpr int row_threads = 256;
constexpr int per_thread = 4;  ///< columns of a row that one thread moves
constexpr int tile = 32;
constexpr int smallest_triangle = 32;
constexpr std::int64_t norm_columns = 8192;  ///< columns of A that one block of threads regenerates

/// The distribution for kernels.
struct Place {
    Cyclic rows;
    Cyclic columns;
    std::int64_t stride;
    __device__ std::int64_t global(const Cyclic& one, std::int64_t local) const {
        return (local / one.block * one.count + one.mine) * one.block + local % one.block;
    }
    __device__ bool has_row(std::int64_t global_row) const {
        return global_row / rows.block % rows.count == rows.mine;
    }
    __device__ std::int64_t local_row(std::int64_t global_row) const {
        return global_row / rows.block / rows.count * rows.block + global_row % rows.block;
    }
};

__global__ void generate_kernel(double* a, Place place, std::int64_t local_rows, std::int64_t local_columns,
                                Matrix matrix) {
    for (std::int64_t i = blockIdx.y; i < local_rows; i += gridDim.y) {
        const std::int64_t row = place.global(place.rows, i);
        for (std::int64_t j = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
             j < place.stride; j += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
            a[i * place.stride + j] = j < local_columns ? matrix(row, place.global(place.columns, j)) : 0.0;
        }
    }
}

/// Copies rows of a row-major matrix to rows of a column-major one.
__global__ void load_kernel(const double* a, Place place, std::int64_t first_row, std::int64_t local_rows,
                            std::int64_t begin, double* panel, std::int64_t stride, int width) {
    __shared__ double square[tile][tile + 1];
    const std::int64_t row0 = static_cast<std::int64_t>(blockIdx.x) * tile;
    const int column0 = static_cast<int>(blockIdx.y) * tile;
    for (int r = static_cast<int>(threadIdx.y); r < tile; r += static_cast<int>(blockDim.y)) {
        const std::int64_t row = first_row + row0 + r;
        const int column = column0 + static_cast<int>(threadIdx.x);
        if (row < local_rows && column < width) square[r][threadIdx.x] = a[row * place.stride + column];
    }
    __syncthreads();
    const std::int64_t row = first_row + row0 + threadIdx.x;
    if (row >= local_rows) return;
    const std::int64_t position = place.global(place.rows, row) - begin;
    for (int c = static_cast<int>(threadIdx.y); c < tile && column0 + c < width;
         c += static_cast<int>(blockDim.y))
        panel[(column0 + c) * stride + position] = square[threadIdx.x][c];
}

/// This process's rows of a panel that has all of them.
__global__ void own_rows_kernel(const double* panel, std::int64_t stride, std::int64_t begin, Place place,
                                std::int64_t first_row, std::int64_t count, double* own,
                                std::int64_t own_stride) {
    const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (i >= count) return;
    const std::int64_t position = place.global(place.rows, first_row + i) - begin;
    own[blockIdx.y * own_stride + i] = panel[blockIdx.y * stride + position];
}

/// Row blockIdx.y of `to` is the row that moves to this top position. With several process rows, `to`
/// continues with the rows that leave the top, and rows that other processes have are zero.
__global__ void gather_kernel(const double* a, Place place, std::int64_t begin, Permutation permutation,
                              std::int64_t columns, double* to, std::int64_t to_stride) {
    const std::int64_t i = blockIdx.y;
    std::int64_t source = -1;
    if (i < permutation.width) {
        source = begin + permutation.top()[i];
    } else if (i - permutation.width < *permutation.count()) {
        source = begin + permutation.low_source()[i - permutation.width];
    }
    const bool here = source >= 0 && place.has_row(source);
    const double* const from = a + (here ? place.local_row(source) : 0) * place.stride;
    const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.x) * per_thread + threadIdx.x;
#pragma unroll
    for (int k = 0; k < per_thread; ++k) {
        const std::int64_t j = first + k * static_cast<std::int64_t>(blockDim.x);
        if (j < columns) to[i * to_stride + j] = here ? from[j] : 0.0;
    }
}

/// Writes the rows that leave the top to their new positions: from A itself, or from the gathered rows.
__global__ void lower_kernel(double* a, Place place, std::int64_t begin, Permutation permutation,
                             std::int64_t columns, const double* gathered, std::int64_t gathered_stride) {
    const std::int64_t i = blockIdx.y;
    if (i >= *permutation.count()) return;
    const std::int64_t target = begin + permutation.low()[i];
    if (!place.has_row(target)) return;
    double* const to = a + place.local_row(target) * place.stride;
    const double* const from = gathered != nullptr
                                   ? gathered + (permutation.width + i) * gathered_stride
                                   : a + place.local_row(begin + permutation.low_source()[i]) * place.stride;
    const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(blockDim.x) * per_thread + threadIdx.x;
#pragma unroll
    for (int k = 0; k < per_thread; ++k) {
        const std::int64_t j = first + k * static_cast<std::int64_t>(blockDim.x);
        if (j < columns) to[j] = from[j];
    }
}

/// Inverts the 32 x 32 triangles on the diagonal of a unit lower triangle. One warp each.
__global__ void invert_kernel(const double* l, std::int64_t stride, double* x, std::int64_t x_stride) {
    __shared__ double from[smallest_triangle][smallest_triangle + 1];
    __shared__ double to[smallest_triangle][smallest_triangle + 1];
    const std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * smallest_triangle;
    const int c = static_cast<int>(threadIdx.x);
    for (int j = 0; j < smallest_triangle; ++j) from[c][j] = l[(base + j) * stride + base + c];
    __syncwarp();
    for (int i = 0; i < smallest_triangle; ++i) {
        double sum = i == c ? 1.0 : 0.0;
        for (int j = c; j < i; ++j) sum -= from[i][j] * to[j][c];
        to[i][c] = i < c ? 0.0 : sum;
    }
    __syncwarp();
    for (int j = 0; j < smallest_triangle; ++j) x[(base + j) * x_stride + base + c] = to[c][j];
}

/// Copies the panel's rows of U into A, which is row-major.
__global__ void store_triangle_kernel(const double* panel, std::int64_t panel_stride, int width, double* a,
                                      std::int64_t stride) {
    __shared__ double square[tile][tile + 1];
    const int row0 = static_cast<int>(blockIdx.x) * tile;
    const int column0 = static_cast<int>(blockIdx.y) * tile;
    const int row = row0 + static_cast<int>(threadIdx.x);
    for (int c = static_cast<int>(threadIdx.y); c < tile; c += static_cast<int>(blockDim.y))
        if (row < width && column0 + c < width)
            square[threadIdx.x][c] = panel[(column0 + c) * panel_stride + row];
    __syncthreads();
    const int column = column0 + static_cast<int>(threadIdx.x);
    for (int r = static_cast<int>(threadIdx.y); r < tile; r += static_cast<int>(blockDim.y))
        if (row0 + r < width && column < width && row0 + r <= column)
            a[(row0 + r) * stride + column] = square[r][threadIdx.x];
}

__global__ void flip_kernel(double* value) {
    *value = __longlong_as_double(__double_as_longlong(*value) ^ (1LL << 39));
}

/// b - Ax of a range of rows and the sums of |a|, by blocks of columns: A is generated, not read.
__global__ void norm_kernel(Matrix matrix, const double* x, std::int64_t begin, std::int64_t rows,
                            double* products, double* sums) {
    __shared__ double part[row_threads];
    const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * norm_columns;
    const std::int64_t last = min(first + norm_columns, matrix.n);
    double product = 0;
    double sum = 0;
    for (std::int64_t c = first; c < last; c += row_threads) {
        __syncthreads();
        if (c + threadIdx.x < last) part[threadIdx.x] = x[c + threadIdx.x];
        __syncthreads();
        const int count = static_cast<int>(min(static_cast<std::int64_t>(row_threads), last - c));
        for (int k = 0; k < count; ++k) {
            const double value = matrix(begin + row, c + k);
            product += value * part[k];
            sum += fabs(value);
        }
    }
    if (row < rows) {
        products[blockIdx.y * rows + row] = product;
        sums[blockIdx.y * rows + row] = sum;
    }
}

/// rhs = b - the contribution of the known unknowns; b is column `b` of these rows, or not in this
/// process.
__global__ void right_hand_side(const double* a, std::int64_t stride, std::int64_t row, std::int64_t b,
                                int count, const double* found, double* rhs) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) rhs[i] = (b >= 0 ? a[(row + i) * stride + b] : 0.0) - found[row + i];
}

inline unsigned blocks_for(std::int64_t count, std::int64_t each) {
    return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace

}  // namespace hpl
