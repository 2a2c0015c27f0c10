// Sums over GPUs: each contributes integers from a seed, so that the sum is exact and known to all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "programs/burn/data.h"
#include "programs/burn/log.h"

namespace burn {

TENKEN_BOTH inline std::int64_t addend(std::uint32_t seed, std::uint32_t rank, std::size_t i) {
    return mixed(static_cast<std::uint32_t>(i) ^ mixed(seed + rank)) >> 8;
}

struct FillAddends {
    double* to;
    std::uint32_t seed;
    std::uint32_t rank;
    TENKEN_BOTH void operator()(std::size_t i) const { to[i] = static_cast<double>(addend(seed, rank, i)); }
};

struct CheckSums {
    const double* sums;
    std::uint32_t seed;
    std::uint32_t ranks;
    std::uint32_t step;
    Log* log;
    TENKEN_BOTH void operator()(std::size_t i) const {
        std::int64_t sum = 0;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) sum += addend(seed, rank, i);
        const std::uint64_t expected = bits_of_double(static_cast<double>(sum));
        const std::uint64_t found = bits_of_double(sums[i]);
        if (found == expected) return;
        add_to(&log->wrong, std::uint64_t{1});
        log->note({Record::copy, step, i / 2, i % 2, expected, found});
    }
};

}  // namespace burn
