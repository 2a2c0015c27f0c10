// Passes over memory: each reads the data of the previous one, compares every word, and writes the next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "programs/burn/data.h"
#include "programs/burn/log.h"

namespace burn {

TENKEN_BOTH inline Words read_once(const Words* from) {
#ifdef __CUDA_ARCH__
    const uint4 read = __ldcs(reinterpret_cast<const uint4*>(from));
    return {{read.x, read.y, read.z, read.w}};
#else
    return *from;
#endif
}
TENKEN_BOTH inline void write_once(Words* to, const Words& words) {
#ifdef __CUDA_ARCH__
    __stcs(reinterpret_cast<uint4*>(to), make_uint4(words.w[0], words.w[1], words.w[2], words.w[3]));
#else
    *to = words;
#endif
}

/// The 16 bytes of a thread. Ascending; descending in every second pass of moving inversions. For rows, with
/// a stride of 8 KiB within blocks of 2 MiB, so that consecutive accesses open another row of the memory.
TENKEN_BOTH inline std::size_t place_of(Pattern pattern, std::uint32_t pass, std::size_t i,
                                        std::size_t count) {
    if (pattern == Pattern::inversions && (pass & 1) != 0) return count - 1 - i;
    constexpr std::size_t row = 64;        // x 16 bytes: 1 KiB
    constexpr std::size_t block = 131072;  // x 16 bytes: 2 MiB
    if (pattern != Pattern::rows || i / block * block + block > count) return i;
    const std::size_t number = i % block / row;  // of 2048 rows: 256 groups of 8, taken across
    return i / block * block + (number % 256 * 8 + number / 256) * row + i % row;
}

/// One pass. @tparam reads compares with the previous pass; without it this is the first
struct MemoryPass {
    Words* memory;
    std::size_t count;
    Pattern pattern;
    std::uint32_t seed;
    std::uint32_t pass;  ///< what is written; what is read is of pass - 1
    bool reads;
    bool writes;
    Log* log;
    std::uint8_t* marks;  ///< of each `unit` of 16 bytes, set to 1 where one is wrong; may be null
    std::uint32_t unit;

    TENKEN_BOTH void operator()(std::size_t i) const {
        const std::size_t at = place_of(pattern, pass, i, count);
        if (reads) {
            const Words expected = pattern_at(pattern, seed, pass - 1, at);
            const Words found = read_once(memory + at);
            const std::uint32_t wrong = (found.w[0] ^ expected.w[0]) | (found.w[1] ^ expected.w[1]) |
                                        (found.w[2] ^ expected.w[2]) | (found.w[3] ^ expected.w[3]);
            if (wrong != 0) tell(at, expected, found);
        }
        if (writes) write_once(memory + at, pattern_at(pattern, seed, pass, at));
    }

  private:
    TENKEN_BOTH void tell(std::size_t at, const Words& expected, const Words& found) const {
        if (marks != nullptr) marks[at / unit] = 1;
        for (std::uint32_t j = 0; j < 4; ++j) {
            if (found.w[j] == expected.w[j]) continue;
            add_to(&log->wrong, std::uint64_t{1});
            log->note({Record::memory, pass - 1, at, j, expected.w[j], found.w[j]});
        }
    }
};

}  // namespace burn
