// Injects faults, one into each unit of a result, and counts how many the verification detects. Units do not
// affect each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "programs/burn/chain.h"
#include "programs/burn/data.h"
#include "programs/burn/faults.h"
#include "programs/burn/memory_check.h"
#include "programs/burn/product_check.h"

namespace burn {

/// States of a unit.
constexpr std::uint8_t untouched = 0;
constexpr std::uint8_t touched = 1;

/// Two to eight bits of a word of this many bits.
TENKEN_BOTH inline std::uint64_t several(std::uint64_t random, std::uint32_t bits) {
    std::uint64_t mask = 0;
    const int wanted = 2 + static_cast<int>(random % 7);
    for (int i = 0; i < wanted; ++i)
        mask |= std::uint64_t{1} << (mixed64(random + static_cast<std::uint64_t>(i)) % bits);
    return mask;
}

/// Rows and tiles of C that make one unit.
struct Units {
    std::uint32_t rows;
    std::uint32_t tiles;

    TENKEN_BOTH std::size_t count(const Product& product) const {
        return static_cast<std::size_t>(product.m / rows) * (product.tiles() / tiles);
    }
};

/// Changes one thing in each unit of C.
struct InjectIntoProduct {
    Product product;
    Units units;
    Fault fault;
    std::uint64_t seed;
    const void* other;  ///< C of another product of the same shape
    std::uint8_t* state;
    bool only_first;

    TENKEN_BOTH void operator()(std::size_t unit) const {
        if (only_first && unit != 0) return;
        const std::uint64_t random = mixed64(seed + unit);
        const std::uint32_t first_row =
            static_cast<std::uint32_t>(unit % (product.m / units.rows)) * units.rows;
        const std::uint32_t first_column =
            static_cast<std::uint32_t>(unit / (product.m / units.rows)) * units.tiles * segment_columns;
        const std::uint32_t row = first_row + static_cast<std::uint32_t>(random % units.rows);
        const std::uint32_t column =
            first_column + static_cast<std::uint32_t>((random >> 16) % segment_columns);
        const auto bits = static_cast<std::uint32_t>(8 * bytes_of(product.result));
        const std::uint64_t more = mixed64(random);
        const std::uint64_t one = std::uint64_t{1} << (more % bits);
        state[unit] = touched;
        switch (fault) {
            case Fault::one_bit:
                change(row, column, one);
                return;
            case Fault::several_bits:
                change(row, column, several(more, bits));
                return;
            case Fault::aligned_run:
                for (std::uint32_t i = 0; i < 32 && i < units.rows; ++i)
                    change(first_row + i, column, mixed64(more + i) | 1);
                return;
            case Fault::accumulator_bit:
                flip_sum(row, column, static_cast<std::uint32_t>(1 + more % (product.of.k - 1)), one);
                return;
            case Fault::stuck_operand:
                operand(column, static_cast<std::uint32_t>(more % product.of.k), first_row,
                        static_cast<std::int64_t>(more >> 32 & 3));
                return;
            case Fault::stuck_sm:
                if ((more >> 40 & 1) != 0) {  // half of the units are on healthy ones
                    state[unit] = untouched;
                    return;
                }
                for (std::uint32_t j = 0; j < segment_columns; ++j)
                    for (std::uint32_t i = 0; i < units.rows; ++i)
                        set(first_row + i, first_column + j, at(first_row + i, first_column + j) | one);
                return;
            case Fault::lost_tile:
            case Fault::stale_tile:
                for (std::uint32_t j = 0; j < segment_columns; ++j)
                    for (std::uint32_t i = 0; i < units.rows; ++i)
                        set(first_row + i, first_column + j,
                            load(other, bytes_of(product.result), place(first_row + i, first_column + j)));
                return;
            default:
                state[unit] = untouched;
        }
    }

  private:
    TENKEN_BOTH std::size_t place(std::uint32_t row, std::uint32_t column) const {
        return static_cast<std::size_t>(column) * product.m + row;
    }
    TENKEN_BOTH std::uint64_t at(std::uint32_t row, std::uint32_t column) const {
        return load(product.c, bytes_of(product.result), place(row, column));
    }
    TENKEN_BOTH void set(std::uint32_t row, std::uint32_t column, std::uint64_t word) const {
        store(product.c, bytes_of(product.result), place(row, column), word);
    }
    TENKEN_BOTH void change(std::uint32_t row, std::uint32_t column, std::uint64_t mask) const {
        set(row, column, at(row, column) ^ mask);
    }

    /// The sums within a library are not accessible, so the element is recomputed with the flip, and
    /// overwritten.
    TENKEN_BOTH void flip_sum(std::uint32_t row, std::uint32_t column, std::uint32_t step,
                              std::uint64_t mask) const {
        const std::int64_t before = product.of.product(product.first_row + row, column, 0, step);
        const std::int64_t rest = product.of.product(product.first_row + row, column, step, product.of.k);
        if (product.result == Result::int32) {
            set(row, column,
                static_cast<std::uint32_t>((static_cast<std::uint64_t>(before) ^ mask) +
                                           static_cast<std::uint64_t>(rest)));
        } else if (product.result == Result::fp32) {
            const auto flipped = static_cast<std::uint32_t>(bits_of(before, Result::fp32) ^ mask);
            set(row, column, bits_of_float(float_of(flipped) + static_cast<float>(rest)));
        } else {
            const std::uint64_t flipped = bits_of(before, Result::fp64) ^ mask;
            set(row, column, bits_of_double(double_of(flipped) + static_cast<double>(rest)));
        }
    }

    /// One bit of an operand is read wrongly if its low bits have a certain value.
    TENKEN_BOTH void operand(std::uint32_t column, std::uint32_t step, std::uint32_t first,
                             std::int64_t pattern) const {
        for (std::uint32_t i = 0; i < units.rows; ++i) {
            const std::uint32_t row = product.first_row + first + i;
            if ((product.of.a(row, step) >> 1 & 3) != pattern) continue;
            const std::int64_t exact = product.of.product(row, column, 0, product.of.k);
            set(first + i, column, bits_of(exact + 2 * product.of.b(column, step), product.result));
        }
    }
};

/// Flips one bit of each of `m` rows of A from `first_row` on; a second call restores them.
struct FlipInputs {
    Operands of;
    void* a;
    std::uint32_t first_row;
    std::uint64_t seed;
    std::uint8_t* state;
    bool only_first;
    TENKEN_BOTH void operator()(std::size_t unit) const {
        if (only_first && unit != 0) return;
        const std::uint64_t random = mixed64(seed + unit);
        const std::size_t bytes = bytes_of(of.kind);
        const std::size_t i = (first_row + unit) * of.k + random % of.k;
        store(a, bytes, i, load(a, bytes, i) ^ (std::uint64_t{1} << ((random >> 32) % (8 * bytes))));
        state[unit] = touched;
    }
};

struct Tally {
    std::uint64_t injected, masked, found, false_alarms;

    /// For each unit: whether a fault was injected, whether the unit differs because of it, and whether the
    /// check marked it.
    TENKEN_BOTH void count(bool changed, bool differs, bool marked) {
        if (changed) add_to(&injected, std::uint64_t{1});
        if (changed && !differs) add_to(&masked, std::uint64_t{1});
        if (changed && differs && marked) add_to(&found, std::uint64_t{1});
        if (marked && !(changed && differs)) add_to(&false_alarms, std::uint64_t{1});
    }
};

/// The result of the check for each unit, and whether it had been changed at all.
struct TallyProduct {
    Product product;
    const void* clean;
    Units units;
    const std::uint8_t* state;
    const std::uint8_t* marks;
    Tally* tally;
    TENKEN_BOTH void operator()(std::size_t unit) const {
        const std::uint32_t first_row =
            static_cast<std::uint32_t>(unit % (product.m / units.rows)) * units.rows;
        const std::uint32_t first_tile =
            static_cast<std::uint32_t>(unit / (product.m / units.rows)) * units.tiles;
        bool marked = false;
        bool differs = false;
        for (std::uint32_t tile = first_tile; tile < first_tile + units.tiles; ++tile) {
            for (std::uint32_t row = first_row; row < first_row + units.rows; ++row) {
                marked = marked || marks[static_cast<std::size_t>(tile) * product.m + row] != 0;
                for (std::uint32_t j = tile * segment_columns; !differs && j < (tile + 1) * segment_columns;
                     ++j) {
                    const std::size_t at = static_cast<std::size_t>(j) * product.m + row;
                    differs = load(product.c, bytes_of(product.result), at) !=
                              load(clean, bytes_of(product.result), at);
                }
            }
        }
        tally->count(state[unit] != untouched, differs, marked);
    }
};

/// Changes one thing in every other `unit` x 16 bytes of memory.
struct InjectIntoMemory {
    Words* memory;
    std::uint32_t unit;
    Pattern pattern;
    std::uint32_t seed;
    std::uint32_t pass;
    Fault fault;
    std::uint64_t random_seed;
    std::uint8_t* state;
    bool only_first;

    TENKEN_BOTH void operator()(std::size_t number) const {
        if ((only_first && number != 0) || number % 2 != 0) return;
        const std::uint64_t random = mixed64(random_seed + number);
        const std::uint64_t more = mixed64(random);
        const std::size_t first = number * unit;
        const std::size_t line = first + random % unit / 8 * 8;
        Words* const words = memory + first + random % unit;
        std::uint32_t* const word = &words->w[random >> 16 & 3];
        const std::uint32_t one = 1U << (more & 31);
        state[number] = touched;
        switch (fault) {
            case Fault::one_bit:
                *word ^= one;
                return;
            case Fault::several_bits:
                *word ^= static_cast<std::uint32_t>(several(more, 32));
                return;
            case Fault::aligned_run:
                for (std::size_t i = 0; i < 8; ++i)
                    for (std::uint32_t j = 0; j < 4; ++j)
                        memory[line + i].w[j] ^= static_cast<std::uint32_t>(mixed64(more + 4 * i + j)) | 1U;
                return;
            case Fault::stuck_bit:
                *word = (more >> 8 & 1) != 0 ? *word | one : *word & ~one;
                return;
            case Fault::lost_tile:
                for (std::size_t i = 0; i < 8; ++i)
                    memory[line + i] = pattern_at(pattern, seed, pass - 1, line + i);
                return;
            case Fault::stale_tile:
                for (std::size_t i = 0; i < unit; ++i)
                    memory[first + i] = pattern_at(pattern, seed, pass - 2, first + i);
                return;
            case Fault::wrong_copy:
                for (std::size_t i = 0; i < unit; ++i)
                    memory[first + i] = pattern_at(pattern, seed, pass, first + i + unit);
                return;
            default:
                state[number] = untouched;
        }
    }
};

struct TallyMemory {
    const Words* memory;
    std::uint32_t unit;
    Pattern pattern;
    std::uint32_t seed;
    std::uint32_t pass;
    const std::uint8_t* state;
    const std::uint8_t* marks;
    Tally* tally;
    TENKEN_BOTH void operator()(std::size_t number) const {
        bool differs = false;
        for (std::size_t at = number * unit; !differs && at < (number + 1) * unit; ++at) {
            const Words expected = pattern_at(pattern, seed, pass, at);
            for (int j = 0; j < 4; ++j) differs = differs || expected.w[j] != memory[at].w[j];
        }
        tally->count(state[number] != untouched, differs, marks[number] != 0);
    }
};

/// Injects a fault into the words that one step of a chain has written. For one call.
struct InjectIntoChain {
    ChainStep step;
    Fault fault;
    std::uint64_t random;
    TENKEN_BOTH void operator()(std::size_t) const {
        const std::size_t mask = (std::size_t{1} << step.bits) - 1;
        const std::uint64_t more = mixed64(random);
        const std::size_t at = random & mask;
        const std::size_t line = at & ~std::size_t{15};
        switch (fault) {
            case Fault::one_bit:
                step.before[at] ^= std::uint64_t{1} << (more & 63);
                return;
            case Fault::several_bits:
                step.before[at] ^= several(more, 64);
                return;
            case Fault::aligned_run:
                for (std::size_t i = 0; i < 16; ++i) step.before[line + i] ^= mixed64(more + i) | 1;
                return;
            case Fault::lost_tile:  // repeating the step of a word undoes it
                for (std::size_t i = 0; i < 16; ++i) step((line + i - step.shift) & mask);
                return;
            default:
                return;
        }
    }
};

/// A sum that is wrong wherever an operand has certain bits, in each step and in both directions.
struct StickInChain {
    const std::uint64_t* now;
    std::uint64_t* before;
    std::uint64_t random;
    std::uint8_t* state;
    TENKEN_BOTH void operator()(std::size_t i) const {
        if (((now[i] ^ random) & 255) != 0) return;
        before[i] += std::uint64_t{1} << (random >> 58);
        *state = touched;
    }
};

}  // namespace burn
