// The content of files: 32-bit words that differ between adjacent positions and between arrays,
// so that a misplaced block is detected, with identical values on host and GPU.
#pragma once

#include <cstdint>
#include <string>

#ifdef __CUDACC__
#define FILE_IO_BOTH __host__ __device__
#else
#define FILE_IO_BOTH
#endif

namespace file_io {

/// Word i of an array.
struct Words {
    enum Kind {
        floats,  ///< single-precision numbers in [1, 2) with 23 scattered bits
        ids      ///< 64-bit numbers: i / 2 in the low word, the seed in the high one
    };
    std::uint32_t seed = 0;
    Kind kind = floats;

    FILE_IO_BOTH std::uint32_t operator()(std::uint64_t i) const {
        if (kind == ids) return (i & 1) == 0 ? static_cast<std::uint32_t>(i / 2) : seed;
        // A multiplicative hash with two folds: adjacent words have no significant bits in common.
        std::uint32_t x = static_cast<std::uint32_t>(i) * 0x9E3779B1u + static_cast<std::uint32_t>(i >> 32) +
                          seed * 0x85EBCA6Bu;
        x ^= x >> 15;
        x *= 0x2C1B3C6Du;
        x ^= x >> 12;
        return 0x3F800000u | (x >> 9);
    }
};

/// The first wrong word.
struct Mismatch {
    std::uint64_t count = 0;
    std::uint64_t first = ~std::uint64_t{0};
    std::uint32_t found = 0;
    std::uint32_t expected = 0;

    /// Keeps the one with the lower position.
    void merge(const Mismatch& other) {
        count += other.count;
        if (other.first >= first) return;
        first = other.first;
        found = other.found;
        expected = other.expected;
    }
    /// "0x3f80a000"
    static std::string hex(std::uint32_t word);
    /// The first byte in which the two words differ, 0 to 3.
    unsigned byte() const;
};

/// Compares `words` words with expected(i), by the host's threads.
template <typename Expected>
Mismatch compare_on_host(const std::uint32_t* memory, std::uint64_t words, const Expected& expected) {
    Mismatch all;
#pragma omp parallel
    {
        Mismatch mine;
#pragma omp for schedule(static)
        for (std::uint64_t i = 0; i < words; ++i) {
            const std::uint32_t wanted = expected(i);
            if (memory[i] == wanted) continue;
            ++mine.count;
            if (mine.count > 1) continue;  // ascending within a thread
            mine.first = i;
            mine.found = memory[i];
            mine.expected = wanted;
        }
#pragma omp critical(file_io_compare)
        all.merge(mine);
    }
    return all;
}

}  // namespace file_io
