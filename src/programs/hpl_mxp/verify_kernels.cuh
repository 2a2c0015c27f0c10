// Comparison of the factors with A.
#pragma once

#include <cuda_runtime.h>

#include "programs/hpl_mxp/gpu_engine_class.h"

namespace mxp {

namespace {

/// For the group's columns, rows up to the diagonal: the sum with signs, the sum of squares, and that without
/// the diagonal.
__global__ void upper_kernel(const float* a, std::int64_t ld, std::int64_t local_first,
                             std::int64_t group_first, std::uint64_t seed, float* w, float* q,
                             float* q_beside) {
    const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (i >= group_first + gpu_tile) return;
    float sum = 0;
    float squares = 0;
    float diagonal = 0;
    for (int c = 0; c < gpu_tile; ++c) {
        const std::int64_t j = group_first + c;
        if (i > j) continue;
        const float value = a[(local_first + c) * ld + i];
        sum += sign_of(seed, j) < 0 ? -value : value;
        if (i == j) {
            diagonal = value * value;
        } else {
            squares += value * value;
        }
    }
    w[i] = sum;
    q[i] = squares + diagonal;
    q_beside[i] = squares;
}

/// The part of L below its diagonal in 512 columns, and its squares, rows from the first of these columns on.
__global__ void lower_kernel(const float* a, std::int64_t ld, std::int64_t rows, float* l, float* squares) {
    const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    const std::int64_t j = blockIdx.y;
    if (i >= rows) return;
    const float value = i > j ? a[j * ld + i] : 0.0f;
    l[j * rows + i] = value;
    squares[j * rows + i] = value * value;
}

struct Worst {
    unsigned long long packed;  ///< the bits of the ratio as a float above, row + group x rows below
};

/// Compares sums of A by groups with L U.
__global__ void factor_error_kernel(Matrix matrix, std::int64_t rows, std::int64_t first_group,
                                    const float* w, const float* q_beside, const float* z,
                                    const float* squares, const float* squares_panel, FactorBound bound,
                                    float* bounds, Worst* worst) {
    const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (i >= matrix.n) return;
    const std::int64_t group = first_group + blockIdx.y;
    const std::int64_t first = group * gpu_tile;
    const std::int64_t last = min(first + gpu_tile, matrix.n);
    double sum = 0;
    for (std::int64_t j = first; j < last; ++j)
        sum += sign_of(matrix.seed, j) * uniform_of(column_state(matrix.seed, j), i);
    const bool on_diagonal = i >= first && i < last;
    if (on_diagonal) sum += sign_of(matrix.seed, i) * matrix.diagonal;
    const std::int64_t place = blockIdx.y * rows + i;
    const double panel = static_cast<double>(squares_panel[place]);
    const double low = fmax(0.0, static_cast<double>(squares[place]) - panel);
    const double allowed = bound.of(low, panel + static_cast<double>(q_beside[place]), on_diagonal);
    const double error = fabs(sum - static_cast<double>(z[place]) - static_cast<double>(w[place]));
    float ratio = static_cast<float>(error / allowed);
    if (!(ratio <= 1e30f)) ratio = 1e30f;  // NaN
    bounds[group * rows + i] = static_cast<float>(allowed);
    const unsigned long long packed = (static_cast<unsigned long long>(__float_as_uint(ratio)) << 32) |
                                      static_cast<unsigned long long>(group * rows + i);
    if (packed > worst->packed) atomicMax(&worst->packed, packed);
}

}  // namespace

}  // namespace mxp
