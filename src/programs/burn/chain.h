// Chains of steps whose errors cannot vanish: u(t + 1) = A u(t) - u(t - 1) modulo 2^64, with A a stencil or a
// sparse matrix. The reverse step is the same as the forward one, so after t steps in each direction every
// word must have its initial value. A wrong word at any step leaves others wrong, since a step maps no
// difference to zero. A fault that is the same in both directions would cancel. So each word w becomes
// way_back w + way_shift before the way back, both odd, and no operand keeps its low bits. The rows of A have
// equal sums, so that a constant remains consistent with the step.
#pragma once

#include <cstddef>
#include <cstdint>

#include "programs/burn/data.h"
#include "programs/burn/log.h"

namespace burn {

enum class Chain { stencil, sparse };

/// Number of steps in each direction.
constexpr std::uint32_t chain_steps = 16;
/// Entries in a row of the sparse matrix.
constexpr std::uint32_t row_entries = 8;
constexpr std::uint64_t stencil_centre = 0xd1342543de82ef95ULL;
constexpr std::uint64_t way_back = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t way_shift = 0xbf58476d1ce4e5b9ULL;
/// Two entries of a row of the sparse matrix.
constexpr std::uint64_t pair_sum = 0x94d049bb133111ebULL;

/// Words at first: of u(0) and u(1).
TENKEN_BOTH inline std::uint64_t chain_word(std::uint64_t seed, std::size_t i) {
    return mixed64(seed ^ i);
}
/// Column of entry `e` of row `row`: an affine permutation of 2^bits rows for each entry.
TENKEN_BOTH inline std::uint64_t chain_column(std::uint32_t bits, std::uint64_t seed, std::uint32_t e,
                                              std::size_t row) {
    return (row * (mixed64(seed + e) | 1) + mixed64(seed + 64 + e)) & ((std::uint64_t{1} << bits) - 1);
}
TENKEN_BOTH inline std::uint64_t chain_value(std::uint64_t seed, std::uint32_t e, std::size_t row) {
    const std::uint64_t value = mixed64(seed ^ (row * row_entries + e / 2));
    return e % 2 == 0 ? value : pair_sum - value;
}
/// What a step of transformed words adds: A (a w + b) - (a v + b) = a (A w - v) + (row sum - 1) b.
TENKEN_BOTH inline std::uint64_t turned_constant(Chain chain) {
    const std::uint64_t row_sum = chain == Chain::stencil ? stencil_centre + 6 : pair_sum * (row_entries / 2);
    return way_shift * (2 - row_sum);
}

/// Stored entries of the matrix, entry by entry, each of all rows.
struct Matrix {
    std::uint64_t* values;
    std::uint32_t* columns;
};

struct FillChain {
    std::uint64_t* words;
    std::uint64_t seed;
    TENKEN_BOTH void operator()(std::size_t i) const { words[i] = chain_word(seed, i); }
};

struct FillMatrix {
    Matrix matrix;
    std::uint32_t bits;
    std::uint64_t seed;
    TENKEN_BOTH void operator()(std::size_t i) const {
        const auto e = static_cast<std::uint32_t>(i >> bits);
        const std::size_t row = i & ((std::size_t{1} << bits) - 1);
        matrix.columns[i] = static_cast<std::uint32_t>(chain_column(bits, seed, e, row));
        matrix.values[i] = chain_value(seed, e, row);
    }
};

struct CheckMatrix {
    Matrix matrix;
    std::uint32_t bits;
    std::uint64_t seed;
    Log* log;
    TENKEN_BOTH void operator()(std::size_t i) const {
        const auto e = static_cast<std::uint32_t>(i >> bits);
        const std::size_t row = i & ((std::size_t{1} << bits) - 1);
        const std::uint64_t column = chain_column(bits, seed, e, row);
        const std::uint64_t value = chain_value(seed, e, row);
        if (matrix.columns[i] == column && matrix.values[i] == value) return;
        add_to(&log->wrong, std::uint64_t{1});
        const bool place = matrix.columns[i] != column;
        log->note({Record::input_a, 0, row, e, place ? column : value,
                   place ? matrix.columns[i] : matrix.values[i]});
    }
};

/// Writes A now - before over `before`. Blocks begin at another row in each step, so that the same rows are
/// on other multiprocessors on the way back.
struct ChainStep {
    Chain chain;
    std::uint32_t bits;
    const std::uint64_t* now;
    std::uint64_t* before;
    Matrix matrix;
    std::size_t shift;
    std::uint64_t constant;  ///< 0 forwards

    TENKEN_BOTH void operator()(std::size_t thread) const {
        const std::size_t mask = (std::size_t{1} << bits) - 1;
        const std::size_t i = (thread + shift) & mask;
        std::uint64_t sum = 0;
        if (chain == Chain::stencil) {
            // a torus of 2^x x 2^y x 2^z cells
            const std::uint32_t x = bits / 3;
            const std::uint32_t y = (bits - x) / 2;
            const std::size_t side_x = std::size_t{1} << x;
            const std::size_t side_y = std::size_t{1} << (x + y);
            const std::size_t at_x = i & (side_x - 1);
            const std::size_t at_y = i & (side_y - 1);
            sum = stencil_centre * now[i] + now[i - at_x + ((at_x + 1) & (side_x - 1))] +
                  now[i - at_x + ((at_x + side_x - 1) & (side_x - 1))] +
                  now[i - at_y + ((at_y + side_x) & (side_y - 1))] +
                  now[i - at_y + ((at_y + side_y - side_x) & (side_y - 1))] + now[(i + side_y) & mask] +
                  now[(i + mask + 1 - side_y) & mask];
        } else {
            for (std::uint32_t e = 0; e < row_entries; ++e) {
                const std::size_t at = (static_cast<std::size_t>(e) << bits) + i;
                sum += matrix.values[at] * now[matrix.columns[at]];
            }
        }
        before[i] = sum - before[i] + constant;
    }
};

struct TurnChain {
    std::uint64_t* words;
    TENKEN_BOTH void operator()(std::size_t i) const { words[i] = words[i] * way_back + way_shift; }
};

/// Words after all steps forwards and back.
struct CheckChain {
    const std::uint64_t* words;
    std::uint64_t seed;
    std::uint32_t cycle;
    Log* log;
    std::uint8_t* marks;
    std::size_t unit;
    TENKEN_BOTH void operator()(std::size_t i) const {
        const std::uint64_t expected = chain_word(seed, i) * way_back + way_shift;
        if (words[i] == expected) return;
        if (marks != nullptr) marks[i / unit] = 1;
        add_to(&log->wrong, std::uint64_t{1});
        log->note({Record::chain, cycle, i, 0, expected, words[i]});
    }
};

}  // namespace burn
