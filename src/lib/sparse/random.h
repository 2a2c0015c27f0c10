// Numbers that depend only on a seed and a position, so that threads generate them independently.
#pragma once

#include <cstdint>

#include "lib/sparse/portable.h"

namespace sparse {

/// 64 well mixed bits of a position (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
SPARSE_EVERYWHERE inline std::uint64_t mixed_bits(std::uint64_t place) {
    std::uint64_t z = place + 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

SPARSE_EVERYWHERE inline std::uint64_t mixed_bits(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
    return mixed_bits(mixed_bits(mixed_bits(seed) ^ a) ^ b);
}

/// Uniform in [0, 1), in steps of 2^-24, so that a float holds it exactly too.
SPARSE_EVERYWHERE inline double unit_real(std::uint64_t bits) {
    return static_cast<double>(bits >> 40) * (1.0 / 16777216.0);
}

}  // namespace sparse
