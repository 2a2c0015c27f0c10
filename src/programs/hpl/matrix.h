// The matrix and the right-hand side: any element independently, from the seed and its position.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define HPL_BOTH __host__ __device__
#else
#define HPL_BOTH
#endif

namespace hpl {

/// Element (i, j) of [A | b], uniform in [-0.5, 0.5): number j * 2^32 + i of the SplitMix64 sequence of the
/// seed (Steele, Lea and Flood 2014), reached directly by a multiplication. Column N is b. The same for every
/// grid.
HPL_BOTH inline double element(std::uint64_t seed, std::int64_t i, std::int64_t j) {
    const std::uint64_t place = (static_cast<std::uint64_t>(j) << 32) + static_cast<std::uint64_t>(i) + 1;
    std::uint64_t z = seed + place * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * (1.0 / 9007199254740992.0) - 0.5;
}

/// Faults injected by tests.
enum class Broken { none, not_a_number, zero_column };

/// The matrix of a run: element() with the injected fault.
struct Matrix {
    std::uint64_t seed;
    std::int64_t n;
    Broken broken;

    HPL_BOTH double operator()(std::int64_t i, std::int64_t j) const {
        if (broken == Broken::zero_column && j == n / 2) return 0;
        if (broken == Broken::not_a_number && i == n / 2 && j == n / 3) {
            return 0.0 / (static_cast<double>(seed) * 0.0);
        }
        return element(seed, i, j);
    }
};

}  // namespace hpl
