// Kernels of HPL-MxP: the matrix made, panels rounded to the low formats, residuals, and the factors
// verified.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "programs/hpl_mxp/gpu_engine.h"

namespace mxp {

namespace {

constexpr int threads = 256;
/// Columns of A that one block of threads makes anew for a residual, and rows that one thread does.
constexpr std::int64_t residual_columns = 8192;
constexpr int residual_rows = 4;
/// Columns in a row that one thread converts.
constexpr int columns_per_thread = 8;

/// FP32 of this process's part, the identity in the padding.
__global__ void generate_kernel(float* a, std::int64_t ld, std::int64_t rows, std::int64_t local_columns,
                                lu::Cyclic columns, Matrix matrix) {
    const std::int64_t first =
        blockIdx.x * static_cast<std::int64_t>(blockDim.x) * residual_rows + threadIdx.x;
    for (std::int64_t j = blockIdx.y; j < local_columns; j += gridDim.y) {
        const std::int64_t column =
            (j / columns.block * columns.count + columns.mine) * columns.block + j % columns.block;
        const std::uint64_t state = column_state(matrix.seed, column);
#pragma unroll
        for (int r = 0; r < residual_rows; ++r) {
            const std::int64_t i = first + r * static_cast<std::int64_t>(blockDim.x);
            if (i >= rows) continue;
            double value = 0;
            if (i < matrix.n && column < matrix.n) value = uniform_of(state, i);
            if (i == column) value = i < matrix.n ? value + matrix.diagonal : 1.0;
            a[j * ld + i] = static_cast<float>(value);
        }
    }
}

/// A 16-bit format: conversion from FP32, and whether a number is below its normal range.
struct Fp16 {
    static __device__ unsigned short bits(float value) { return __half_as_ushort(__float2half_rn(value)); }
    static __device__ bool is_small(unsigned short bits) { return (bits & 0x7c00u) == 0; }
    static __device__ bool is_too_large(unsigned short bits) { return (bits & 0x7c00u) == 0x7c00u; }
};
struct Bf16 {
    static __device__ unsigned short bits(float value) {
        return __bfloat16_as_ushort(__float2bfloat16(value));
    }
    static __device__ bool is_small(unsigned short bits) { return (bits & 0x7f80u) == 0; }
    static __device__ bool is_too_large(unsigned short bits) { return (bits & 0x7f80u) == 0x7f80u; }
};

struct Counts {
    unsigned long long small;
    unsigned long long overflowed;
};

__device__ void add_counts(Counts* counts, int small, int overflowed) {
    for (int offset = 16; offset > 0; offset /= 2) {
        small += __shfl_down_sync(0xffffffffu, small, offset);
        overflowed += __shfl_down_sync(0xffffffffu, overflowed, offset);
    }
    if (threadIdx.x % 32 != 0) return;
    if (small > 0) atomicAdd(&counts->small, static_cast<unsigned long long>(small));
    if (overflowed > 0) atomicAdd(&counts->overflowed, static_cast<unsigned long long>(overflowed));
}

/// What a product has given goes into A in FP32, and scaled and rounded beside it: `rows` (a multiple of 4)
/// of `columns`. Rows and columns from the valid ones on are padding and not counted.
template <typename Format16>
__global__ void store_kernel(const float* from, std::int64_t from_ld, float* a, std::int64_t a_ld,
                             unsigned short* low, std::int64_t low_ld, std::int64_t rows,
                             std::int64_t columns, float scale, std::int64_t valid_rows,
                             std::int64_t valid_columns, Counts* counts) {
    const std::int64_t i = 4 * (blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x);
    int small = 0;
    int overflowed = 0;
    for (int c = 0; c < columns_per_thread; ++c) {
        const std::int64_t j = blockIdx.y * static_cast<std::int64_t>(columns_per_thread) + c;
        if (i >= rows || j >= columns) continue;
        const float4 value = *reinterpret_cast<const float4*>(from + j * from_ld + i);
        *reinterpret_cast<float4*>(a + j * a_ld + i) = value;
        ushort4 bits;
        bits.x = Format16::bits(value.x * scale);
        bits.y = Format16::bits(value.y * scale);
        bits.z = Format16::bits(value.z * scale);
        bits.w = Format16::bits(value.w * scale);
        *reinterpret_cast<ushort4*>(low + j * low_ld + i) = bits;
        if (j >= valid_columns) continue;
        const unsigned short each[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            if (i + e >= valid_rows) continue;
            small += Format16::is_small(each[e]) ? 1 : 0;
            overflowed += Format16::is_too_large(each[e]) ? 1 : 0;
        }
    }
    add_counts(counts, small, overflowed);
}

/// E4M3 of what was rounded to 16 bits before, rounding to nearest even and saturating.
__device__ unsigned char e4m3_of(float value) {
    const float size = fminf(fabsf(value), 448.0f);
    const unsigned sign = value < 0 ? 0x80u : 0u;
    if (size < 0.015625f)  // subnormal: multiples of 2^-9
        return static_cast<unsigned char>(sign | static_cast<unsigned>(__float2int_rn(size * 512.0f)));
    unsigned bits = __float_as_uint(size);
    bits += 0x7ffffu + ((bits >> 20) & 1u);  // to 3 bits behind the point, ties to even
    const unsigned exponent = (bits >> 23) - 120u;
    return static_cast<unsigned char>(sign | (exponent << 3) | ((bits >> 20) & 7u));
}

/// From FP16. U: column after column stays so. L: rows become contiguous, which FP8 products ask for.
__global__ void to_fp8_kernel(const unsigned short* from, std::int64_t from_ld, std::int64_t rows,
                              std::int64_t columns, unsigned char* to, std::int64_t to_ld, bool transpose,
                              Counts* counts) {
    __shared__ unsigned char square[32][33];
    const std::int64_t row0 = blockIdx.x * 32LL;
    int small = 0;
    int overflowed = 0;
    for (std::int64_t column0 = blockIdx.y * 32LL; column0 < columns; column0 += gridDim.y * 32LL) {
        for (int c = static_cast<int>(threadIdx.x) / 32; c < 32; c += threads / 32) {
            const int r = static_cast<int>(threadIdx.x) % 32;
            const std::int64_t i = row0 + r;
            const std::int64_t j = column0 + c;
            if (i >= rows || j >= columns) continue;
            const float value = __half2float(__ushort_as_half(from[j * from_ld + i]));
            const unsigned char code = e4m3_of(value);
            small += (code & 0x78u) == 0 ? 1 : 0;
            overflowed += fabsf(value) > 448.0f ? 1 : 0;
            if (transpose) {
                square[c][r] = code;
            } else {
                to[j * to_ld + i] = code;
            }
        }
        __syncthreads();
        if (transpose) {
            for (int r = static_cast<int>(threadIdx.x) / 32; r < 32; r += threads / 32) {
                const int c = static_cast<int>(threadIdx.x) % 32;
                if (row0 + r < rows && column0 + c < columns)
                    to[(row0 + r) * to_ld + column0 + c] = square[c][r];
            }
        }
        __syncthreads();
    }
    add_counts(counts, small, overflowed);
}

__global__ void identity_kernel(float* one, float* other) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= gpu_tile * gpu_tile) return;
    const float value = i % (gpu_tile + 1) == 0 ? 1.0f : 0.0f;
    one[i] = value;
    other[i] = value;
}

/// Sums over columns of uniform x and, where asked for, of |uniform|, by blocks of columns: A is made, not
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

/// Of the group's columns, rows up to the diagonal: the sum with signs, the sum of squares, and that without
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

/// Holds sums of A by groups against L U.
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
    if (!(ratio <= 1e30f)) ratio = 1e30f;  // not a number
    bounds[group * rows + i] = static_cast<float>(allowed);
    const unsigned long long packed = (static_cast<unsigned long long>(__float_as_uint(ratio)) << 32) |
                                      static_cast<unsigned long long>(group * rows + i);
    if (packed > worst->packed) atomicMax(&worst->packed, packed);
}

template <typename To, typename From>
__global__ void cast_kernel(const From* from, std::int64_t count, To factor, To* to) {
    const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (i < count) to[i] = factor * static_cast<To>(from[i]);
}

}  // namespace

}  // namespace mxp
