// Checks of a product. A segment is the part of a row of C that lies in one tile: 128 consecutive columns.
// The sum of its elements, each times an odd random number, is known from the operands' seeds, modulo 2^64.
// One wrong element always changes it; several leave it unchanged with a probability of 2^-64. Huang and
// Abraham, Algorithm-Based Fault Tolerance for Matrix Operations, IEEE Trans. Comput. C-33 (1984), in
// integers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "programs/burn/data.h"
#include "programs/burn/log.h"

#ifdef __CUDA_ARCH__
#define BURN_UNROLL _Pragma("unroll 16")
#else
#define BURN_UNROLL
#endif

namespace burn {

constexpr std::uint32_t segment_columns = 128;

/// Odd, below 2^31.
TENKEN_BOTH inline std::uint32_t weight_of(std::uint32_t column, std::uint32_t seed) {
    return (mixed(column ^ seed) >> 1) | 1U;
}

struct FillWeights {
    std::uint32_t* weights;
    std::uint32_t seed;
    TENKEN_BOTH void operator()(std::size_t column) const {
        weights[column] = weight_of(static_cast<std::uint32_t>(column), seed);
    }
};

/// One operand, row by row of A and column by column of B: k consecutive numbers.
struct FillOperand {
    Operands of;
    bool is_a;
    void* to;
    TENKEN_BOTH void operator()(std::size_t i) const {
        const auto line = static_cast<std::uint32_t>(i / of.k);
        const auto step = static_cast<std::uint32_t>(i % of.k);
        const std::int64_t value = is_a ? of.a(line, step) : of.b(line, step);
        store(to, bytes_of(of.kind), i, bits_of(value, of.kind));
    }
};

/// Compares a stored operand with its seed, to distinguish a wrong input from a wrong product.
struct CheckOperand {
    Operands of;
    bool is_a;
    const void* stored;
    Log* log;
    TENKEN_BOTH void operator()(std::size_t i) const {
        const auto line = static_cast<std::uint32_t>(i / of.k);
        const auto step = static_cast<std::uint32_t>(i % of.k);
        const std::uint64_t expected = bits_of(is_a ? of.a(line, step) : of.b(line, step), of.kind);
        const std::uint64_t found = load(stored, bytes_of(of.kind), i);
        if (found == expected) return;
        add_to(&log->wrong, std::uint64_t{1});
        log->note({is_a ? Record::input_a : Record::input_b, 0, line, step, expected, found});
    }
};

/// The weighted sums of B over the columns of each tile: k x tiles.
struct SumColumns {
    Operands of;
    const std::uint32_t* weights;
    std::uint32_t tiles;
    std::uint64_t* sums;
    TENKEN_BOTH void operator()(std::size_t i) const {
        const auto step = static_cast<std::uint32_t>(i % of.k);
        const auto tile = static_cast<std::uint32_t>(i / of.k);
        std::uint64_t sum = 0;
        for (std::uint32_t j = tile * segment_columns; j < (tile + 1) * segment_columns; ++j)
            sum += static_cast<std::uint64_t>(of.b(j, step)) * weights[j];
        sums[static_cast<std::size_t>(step) * tiles + tile] = sum;
    }
};

/// The expected sum of each segment: rows x tiles, from the seeds alone. Of four rows at a time.
struct ExpectSegments {
    static constexpr std::uint32_t together = 4;
    Operands of;
    const std::uint64_t* sums;
    std::uint32_t tiles;
    std::uint32_t rows;
    std::uint64_t* expected;
    TENKEN_BOTH void operator()(std::size_t i) const {
        const auto tile = static_cast<std::uint32_t>(i % tiles);
        const auto row = static_cast<std::uint32_t>(i / tiles) * together;
        std::uint64_t sum[together] = {};
        for (std::uint32_t step = 0; step < of.k; ++step) {
            const std::uint64_t of_columns = sums[static_cast<std::size_t>(step) * tiles + tile];
            for (std::uint32_t r = 0; r < together; ++r)
                sum[r] += static_cast<std::uint64_t>(of.a(row + r, step)) * of_columns;
        }
        for (std::uint32_t r = 0; r < together; ++r)
            expected[static_cast<std::size_t>(tile) * rows + row + r] = sum[r];
    }
};

/// C, column by column, and its expected value: rows first_row ... of A times B.
struct Product {
    Operands of;
    Result result;
    void* c;
    std::uint32_t m;
    std::uint32_t n;
    std::uint32_t rows;       ///< of A: more than m, so that other rows come to the same place
    std::uint32_t first_row;  ///< of A, in this product
    std::uint32_t step;       ///< number of the product

    TENKEN_BOTH std::uint32_t tiles() const { return n / segment_columns; }
    TENKEN_BOTH std::size_t segments() const { return static_cast<std::size_t>(m) * tiles(); }
};

/// The integer that a stored element represents; `odd` gets bits set if it is not one.
TENKEN_BOTH inline std::int64_t integer_of(float stored, std::uint64_t& odd) {
    // adding 1.5 x 2^23 leaves the integer in the low bits; beyond 2^22 the difference shows
    const float moved = stored + 12582912.0f;
    odd |= bits_of_float(moved - 12582912.0f) ^ bits_of_float(stored);
    return static_cast<std::int32_t>(bits_of_float(moved)) - 0x4b400000;
}
TENKEN_BOTH inline std::int64_t integer_of(double stored, std::uint64_t& odd) {
    const double moved = stored + 6755399441055744.0;  // 1.5 x 2^52
    odd |= bits_of_double(moved - 6755399441055744.0) ^ bits_of_double(stored);
    return static_cast<std::int64_t>(bits_of_double(moved) - 0x4338000000000000ULL);
}
TENKEN_BOTH inline std::int64_t integer_of(std::int32_t stored, std::uint64_t&) {
    return stored;
}

/// One segment of C as it is stored. Neighbours in `i` are neighbours in memory.
template <typename Element>
struct CheckSegments {
    Product product;
    const std::uint64_t* expected;
    const std::uint32_t* weights;
    Log* log;
    std::uint8_t* marks;  ///< of each segment, set to 1 where it is wrong; may be null

    TENKEN_BOTH void operator()(std::size_t i) const {
        const auto row = static_cast<std::uint32_t>(i % product.m);
        const auto tile = static_cast<std::uint32_t>(i / product.m);
        const Element* const c = static_cast<const Element*>(product.c) + row;
        const std::uint32_t first = tile * segment_columns;
        std::uint64_t sum = 0;
        std::uint64_t odd = 0;
        BURN_UNROLL
        for (std::uint32_t j = first; j < first + segment_columns; ++j) {
            const Element stored = c[static_cast<std::size_t>(j) * product.m];
            sum +=
                static_cast<std::uint64_t>(integer_of(stored, odd) * static_cast<std::int64_t>(weights[j]));
        }
        if (i == 0) log->flagged[(product.step + 1) & 1] = 0;
        if (odd == 0 &&
            sum == expected[static_cast<std::size_t>(tile) * product.rows + product.first_row + row])
            return;
        if (marks != nullptr) marks[i] = 1;
        add_to(&log->wrong, std::uint64_t{1});
        const std::uint32_t place = add_to(&log->flagged[product.step & 1], 1U);
        if (place < max_flagged) log->segment[product.step & 1][place] = static_cast<std::uint32_t>(i);
    }
};

/// Finds the wrong elements of flagged segments, by computing each of their elements again from the seeds.
/// For max_flagged x segment_columns elements.
struct LocateElements {
    Product product;
    Log* log;
    TENKEN_BOTH void operator()(std::size_t i) const {
        const std::uint32_t parity = product.step & 1;
        const auto place = static_cast<std::uint32_t>(i / segment_columns);
        if (place >= log->flagged[parity] || place >= max_flagged) return;
        const std::uint32_t segment = log->segment[parity][place];
        const std::uint32_t row = segment % product.m;
        const std::uint32_t column =
            segment / product.m * segment_columns + static_cast<std::uint32_t>(i % segment_columns);
        const std::uint64_t found =
            load(product.c, bytes_of(product.result), static_cast<std::size_t>(column) * product.m + row);
        const std::uint64_t expected =
            bits_of(product.of.product(product.first_row + row, column, 0, product.of.k), product.result);
        if (found != expected) log->note({Record::output, product.step, row, column, expected, found});
    }
};

/// A number for the bits of a whole result that depends on each bit and its place, in any order of addition.
struct Fingerprint {
    const void* c;
    std::size_t bytes;
    std::uint64_t* sum;
    std::size_t count;
    static constexpr std::size_t each = 1024;  ///< elements of one call
    TENKEN_BOTH void operator()(std::size_t i) const {
        std::uint64_t mine = 0;
        for (std::size_t e = i; e < count; e += (count + each - 1) / each)
            mine += mixed64(load(c, bytes, e) ^ mixed64(e));
        add_to(sum, mine);
    }
};

}  // namespace burn
