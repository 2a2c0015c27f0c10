// Generation of the matrix, and rounding of panels and rows to the low formats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "programs/hpl_mxp/gpu_engine_class.h"

namespace mxp {

namespace {

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
        // CUDA 11.8 has __bfloat16_as_ushort from sm_80 on only
        return static_cast<__nv_bfloat16_raw>(__float2bfloat16(value)).x;
    }
    static __device__ bool is_small(unsigned short bits) { return (bits & 0x7f80u) == 0; }
    static __device__ bool is_too_large(unsigned short bits) { return (bits & 0x7f80u) == 0x7f80u; }
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

/// Stores the result of a product in A in FP32, and additionally scaled and rounded: `rows` (a multiple of 4)
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

/// E4M3 of values already rounded to 16 bits, with rounding to nearest even and saturation.
__device__ unsigned char e4m3_of(float value) {
    const float size = fminf(fabsf(value), 448.0f);
    const unsigned sign = value < 0 ? 0x80u : 0u;
    if (size < 0.015625f)  // subnormal: multiples of 2^-9
        return static_cast<unsigned char>(sign | static_cast<unsigned>(__float2int_rn(size * 512.0f)));
    unsigned bits = __float_as_uint(size);
    bits += 0x7ffffu + ((bits >> 20) & 1u);  // to 3 fraction bits, ties to even
    const unsigned exponent = (bits >> 23) - 120u;
    return static_cast<unsigned char>(sign | (exponent << 3) | ((bits >> 20) & 7u));
}

/// From FP16. U remains column-major. L becomes row-major, as required by FP8 products.
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

}  // namespace

}  // namespace mxp
