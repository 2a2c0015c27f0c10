// The matrix and the right-hand side: any element independently, from the seed and its position.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define MXP_BOTH __host__ __device__
#else
#define MXP_BOTH
#endif

namespace mxp {

/// The start of column j; once per column, so that elements() are cheap.
MXP_BOTH inline std::uint64_t column_state(std::uint64_t seed, std::int64_t j) {
    // SplitMix64 (Steele, Lea and Flood 2014)
    std::uint64_t z = (seed << 32) + (static_cast<std::uint64_t>(j) + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/// Row i of a column, uniform in [-0.5, 0.5): a Weyl sequence, folded and multiplied once.
MXP_BOTH inline double uniform_of(std::uint64_t column, std::int64_t i) {
    std::uint64_t z = column + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 32)) * 0xd6e8feb86659fd93ULL;
    // 52 bits behind the exponent of 1: in [1, 2)
    const std::uint64_t bits = (z >> 12) | 0x3ff0000000000000ULL;
#ifdef __CUDA_ARCH__
    return __longlong_as_double(static_cast<long long>(bits)) - 1.5;
#else
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value - 1.5;
#endif
}

/// A = uniform + diagonal x I of order n, and b as column n.
struct Matrix {
    std::uint64_t seed;
    std::int64_t n;
    double diagonal;  ///< sqrt(N): leading blocks are well conditioned, so that LU needs no pivots; N / 2:
                      ///< dominant

    MXP_BOTH double operator()(std::int64_t i, std::int64_t j) const {
        return uniform_of(column_state(seed, j), i) + (i == j ? diagonal : 0.0);
    }
    MXP_BOTH double rhs(std::int64_t i) const { return uniform_of(column_state(seed, n), i); }
};

/// +1 or -1, the weights of columns in the sums of the verification.
MXP_BOTH inline double sign_of(std::uint64_t seed, std::int64_t j) {
    return (column_state(seed ^ 0x5eedULL, j) >> 63) != 0 ? -1.0 : 1.0;
}

}  // namespace mxp
