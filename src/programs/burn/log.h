// Errors found by the verification, stored on the device until the host reads them.
#pragma once

#include <cstdint>

#include "lib/base/formats.h"

namespace burn {

/// Adds to a counter that several threads share. @return its value before
TENKEN_BOTH inline std::uint32_t add_to(std::uint32_t* counter, std::uint32_t amount) {
#ifdef __CUDA_ARCH__
    return atomicAdd(counter, amount);
#else
    return __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
#endif
}
TENKEN_BOTH inline void add_to(std::uint64_t* counter, std::uint64_t amount) {
#ifdef __CUDA_ARCH__
    atomicAdd(reinterpret_cast<unsigned long long*>(counter), static_cast<unsigned long long>(amount));
#else
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
#endif
}

/// One wrong word.
struct Record {
    enum Kind : std::uint32_t { output, input_a, input_b, memory, copy, chain };
    std::uint32_t kind;
    std::uint32_t step;    ///< of the visit: product, pass or copy
    std::uint64_t row;     ///< of C or of the operand; of memory, the index of 16 bytes
    std::uint64_t column;  ///< of memory, the index of the word of 4 bytes within them
    std::uint64_t expected;
    std::uint64_t found;
};

constexpr std::uint32_t max_records = 256;
/// Segments of a product that are computed again, element by element.
constexpr std::uint32_t max_flagged = 64;

struct Log {
    std::uint64_t wrong;       ///< segments of C, words of inputs, words of memory
    std::uint32_t flagged[2];  ///< segments of an even and of an odd product
    std::uint32_t segment[2][max_flagged];
    std::uint32_t records;  ///< may exceed max_records: those beyond are only counted
    std::uint32_t unused;
    Record record[max_records];

    TENKEN_BOTH void note(const Record& one) {
        const std::uint32_t place = add_to(&records, 1U);
        if (place < max_records) record[place] = one;
    }
};

}  // namespace burn
