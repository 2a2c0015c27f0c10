// Kernels of gemm: generation of operands, and comparison of every element of C with double precision.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "lib/cuda/verify.cuh"
#include "programs/gemm/precision.h"

namespace gemm {

namespace {

constexpr int threads = 256;
constexpr int reference_tile = 32;

unsigned blocks_for(std::size_t count) {
    return static_cast<unsigned>(std::min<std::size_t>((count + threads - 1) / threads, 1u << 20));
}

/// Stores `value` as element `i`; two FP4 elements share a byte, the first one in the lower half.
__device__ void store(Element element, void* to, std::size_t i, double value) {
    switch (element) {
        case Element::fp64:
            static_cast<double*>(to)[i] = value;
            return;
        case Element::fp32:
        case Element::tf32:
            static_cast<float*>(to)[i] = static_cast<float>(value);
            return;
        case Element::fp16:
            static_cast<unsigned short*>(to)[i] =
                static_cast<unsigned short>(tenken::encoded(value, tenken::formats::fp16(), 5));
            return;
        case Element::bf16:
            static_cast<unsigned short*>(to)[i] =
                static_cast<unsigned short>(tenken::encoded(value, tenken::formats::bf16(), 8));
            return;
        case Element::int8:
            static_cast<signed char*>(to)[i] = static_cast<signed char>(value);
            return;
        case Element::e4m3:
            static_cast<unsigned char*>(to)[i] =
                static_cast<unsigned char>(tenken::encoded(value, tenken::formats::e4m3(), 4));
            return;
        case Element::e5m2:
            static_cast<unsigned char*>(to)[i] =
                static_cast<unsigned char>(tenken::encoded(value, tenken::formats::e5m2(), 5));
            return;
        case Element::e2m1:
            static_cast<unsigned char*>(to)[i] =
                static_cast<unsigned char>(tenken::encoded(value, tenken::formats::e2m1(), 2));
            return;
    }
}

__global__ void fill_kernel(Element element, std::uint64_t seed, std::size_t count, void* to) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
         i += step) {
        if (element == Element::e2m1) {  // `count` bytes of two elements
            const unsigned low = tenken::encoded(operand(element, seed, 2 * i), tenken::formats::e2m1(), 2);
            const unsigned high =
                tenken::encoded(operand(element, seed, 2 * i + 1), tenken::formats::e2m1(), 2);
            static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(low | (high << 4));
        } else {
            store(element, to, i, operand(element, seed, i));
        }
    }
}

/// The operand as doubles, regenerated rather than read.
__global__ void expand_kernel(Element element, std::uint64_t seed, std::size_t first, std::size_t count,
                              double factor, double* to) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
         i += step)
        to[i] = factor * operand(element, seed, first + i);
}

/// Norms of vectors with elements `stride` apart, at distances `apart` from each other.
__global__ void norm_kernel(const double* from, std::int64_t vectors, std::int64_t length,
                            std::int64_t stride, std::int64_t apart, double* to) {
    const std::int64_t v = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (v >= vectors) return;
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i) {
        const double value = from[v * apart + i * stride];
        sum += value * value;
    }
    to[v] = sqrt(sum);
}

/// C = A^T B in doubles, k x m and k x n, column-major: the reference for DGEMM.
__global__ void reference_kernel(const double* a, const double* b, std::int64_t m, std::int64_t n,
                                 std::int64_t k, double* c) {
    __shared__ double a_tile[reference_tile][reference_tile + 1];
    __shared__ double b_tile[reference_tile][reference_tile + 1];
    const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * reference_tile + threadIdx.x;
    const std::int64_t j = static_cast<std::int64_t>(blockIdx.y) * reference_tile + threadIdx.y;
    // Loads along k, which is contiguous in both.
    const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * reference_tile + threadIdx.y;
    double sum = 0;
    for (std::int64_t l = 0; l < k; l += reference_tile) {
        const std::int64_t at = l + threadIdx.x;
        a_tile[threadIdx.y][threadIdx.x] = row < m && at < k ? a[row * k + at] : 0.0;
        b_tile[threadIdx.y][threadIdx.x] = j < n && at < k ? b[j * k + at] : 0.0;
        __syncthreads();
        for (int s = 0; s < reference_tile; ++s) sum += a_tile[threadIdx.x][s] * b_tile[threadIdx.y][s];
        __syncthreads();
    }
    if (i < m && j < n) c[j * m + i] = sum;
}

__device__ double load(Output output, const void* from, std::size_t i) {
    switch (output) {
        case Output::fp64:
            return static_cast<const double*>(from)[i];
        case Output::fp32:
            return static_cast<double>(static_cast<const float*>(from)[i]);
        case Output::fp16: {
            const unsigned bits = static_cast<const unsigned short*>(from)[i];
            if ((bits & 0x7c00u) == 0x7c00u) return nan("");
            return tenken::decoded(bits, tenken::formats::fp16(), 5);
        }
        case Output::bf16: {
            const unsigned bits = static_cast<const unsigned short*>(from)[i];
            if ((bits & 0x7f80u) == 0x7f80u) return nan("");
            return tenken::decoded(bits, tenken::formats::bf16(), 8);
        }
        case Output::int32:
            return static_cast<double>(static_cast<const int*>(from)[i]);
    }
    return nan("");
}

/// Maximum error relative to its bound, and the first element beyond it, of `columns` columns.
__global__ void compare_kernel(Output output, const void* c, std::size_t first, std::size_t count,
                               std::int64_t m, const double* exact, double sign, const double* norms_a,
                               const double* norms_b, Bound bound, tenken::cuda::Found* found) {
    double largest = 0;
    unsigned long long wrong = ~0ULL;
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
         i += step) {
        const double expected = sign * exact[i];
        const double allowed = bound.of(expected, norms_a[i % static_cast<std::size_t>(m)],
                                        norms_b[i / static_cast<std::size_t>(m)]);
        double error = fabs(load(output, c, first + i) - expected) / allowed;
        if (!(error <= 1e300)) error = 1e300;  // NaN
        if (error > largest) largest = error;
        if (error > 1 && first + i < wrong) wrong = first + i;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        const double other = __shfl_down_sync(0xffffffffu, largest, offset);
        if (other > largest) largest = other;
    }
    if (threadIdx.x % 32 == 0 && largest > 0)
        atomicMax(&found->largest_error_bits, static_cast<unsigned long long>(__double_as_longlong(largest)));
    if (wrong != ~0ULL) atomicMin(&found->first_wrong, wrong);
}

/// Changes element `i` of C by a little more than twice its bound, away from zero.
__global__ void corrupt_kernel(Output output, void* c, std::size_t i, double expected, double norm_a,
                               double norm_b, Bound bound) {
    const double change = 2.01 * bound.of(expected, norm_a, norm_b);
    const double value = expected + (expected < 0 ? -change : change);
    switch (output) {
        case Output::fp64:
            static_cast<double*>(c)[i] = value;
            return;
        case Output::fp32:
            static_cast<float*>(c)[i] = static_cast<float>(value);
            return;
        case Output::fp16:
            static_cast<unsigned short*>(c)[i] = static_cast<unsigned short>(
                tenken::encoded(tenken::rounded(value, tenken::formats::fp16()), tenken::formats::fp16(), 5));
            return;
        case Output::bf16:
            static_cast<unsigned short*>(c)[i] = static_cast<unsigned short>(
                tenken::encoded(tenken::rounded(value, tenken::formats::bf16()), tenken::formats::bf16(), 8));
            return;
        case Output::int32:
            static_cast<int*>(c)[i] = static_cast<int>(rint(value));
            return;
    }
}

__global__ void fill_floats(float* to, std::size_t count, float value) {
    const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
    for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < count;
         i += step)
        to[i] = value;
}

__global__ void load_value(Output output, const void* c, std::size_t i, double* to) {
    *to = load(output, c, i);
}

}  // namespace

}  // namespace gemm
