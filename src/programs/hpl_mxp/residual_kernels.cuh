// Residuals, with A regenerated.
#pragma once

#include <cuda_runtime.h>

#include "programs/hpl_mxp/gpu_engine_class.h"

namespace mxp {

namespace {

/// Sums over columns of uniform x and, if requested, of |uniform|, by blocks of columns: A is generated, not
/// read.
template <bool with_sums>
__global__ void residual_kernel(const std::uint64_t* states, const double* x, std::int64_t n,
                                std::int64_t begin, std::int64_t rows, double* products, double* sums) {
    __shared__ double x_part[threads];
    __shared__ std::uint64_t state_part[threads];
    const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(threads) * residual_rows + threadIdx.x;
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * residual_columns;
    const std::int64_t last = min(first + residual_columns, n);
    double product[residual_rows] = {};
    double sum[residual_rows] = {};
    for (std::int64_t c = first; c < last; c += threads) {
        __syncthreads();
        if (c + threadIdx.x < last) {
            x_part[threadIdx.x] = x[c + threadIdx.x];
            state_part[threadIdx.x] = states[c + threadIdx.x];
        }
        __syncthreads();
        const int count = static_cast<int>(min(static_cast<std::int64_t>(threads), last - c));
#pragma unroll 4
        for (int k = 0; k < count; ++k) {
            const std::uint64_t state = state_part[k];
            const double factor = x_part[k];
#pragma unroll
            for (int r = 0; r < residual_rows; ++r) {
                const double value = uniform_of(state, begin + row + r * threads);
                product[r] += value * factor;
                if (with_sums) sum[r] += fabs(value);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < residual_rows; ++r) {
        const std::int64_t i = row + r * threads;
        if (i >= rows) continue;
        products[blockIdx.y * rows + i] = product[r];
        if (with_sums) sums[blockIdx.y * rows + i] = sum[r];
    }
}

/// b - A x and the sum of |a| of each row, from the parts and the diagonal.
__global__ void residual_end_kernel(Matrix matrix, const double* x, std::int64_t begin, std::int64_t rows,
                                    int parts, const double* products, const double* sums, double* r,
                                    double* row_sums) {
    const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (i >= rows) return;
    double product = 0;
    double sum = 0;
    for (int p = 0; p < parts; ++p) {
        product += products[p * rows + i];
        if (row_sums != nullptr) sum += sums[p * rows + i];
    }
    const std::int64_t row = begin + i;
    product += matrix.diagonal * x[row];
    r[i] = matrix.rhs(row) - product;
    if (row_sums == nullptr) return;
    const double uniform = uniform_of(column_state(matrix.seed, row), row);
    row_sums[i] = sum - fabs(uniform) + fabs(uniform + matrix.diagonal);
}

}  // namespace

}  // namespace mxp
