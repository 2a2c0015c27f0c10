// Data from seeds, whose products are exact: odd integers of few bits, so that no sum of a product is rounded
// in any order, and none is zero. The answer is then known without a second run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/formats.h"

namespace burn {

/// Mixes 32 bits so that every bit of the input affects each bit of the output (a permutation: no two inputs
/// give the same output).
TENKEN_BOTH inline std::uint32_t mixed(std::uint32_t x) {
    x ^= x >> 16;
    x *= 0x85ebca6bU;
    x ^= x >> 13;
    x *= 0xc2b2ae35U;
    x ^= x >> 16;
    return x;
}

/// The same for 64 bits.
TENKEN_BOTH inline std::uint64_t mixed64(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/// How an operand is stored: tf32 in 32 bits, of which the units use 19.
enum class Operand { fp64, tf32, fp16, bf16, e4m3, int8 };
enum class Result { fp64, fp32, int32 };

TENKEN_BOTH inline std::size_t bytes_of(Operand operand) {
    return operand == Operand::fp64                               ? 8
           : operand == Operand::tf32                             ? 4
           : operand == Operand::fp16 || operand == Operand::bf16 ? 2
                                                                  : 1;
}
TENKEN_BOTH inline std::size_t bytes_of(Result result) {
    return result == Result::fp64 ? 8 : 4;
}

/// The bits of an integer in a binary format, which can represent it.
TENKEN_BOTH inline std::uint64_t packed(std::int64_t value, int exponent_bits, int fraction_bits) {
    if (value == 0) return 0;
    const std::uint64_t sign = value < 0 ? 1 : 0;
    const std::uint64_t size =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    int top = 0;
    while ((size >> top) > 1) ++top;
    const std::uint64_t fraction =
        fraction_bits >= top ? size << (fraction_bits - top) : size >> (top - fraction_bits);
    const std::uint64_t field = static_cast<std::uint64_t>(top + (1 << (exponent_bits - 1)) - 1);
    return (sign << (exponent_bits + fraction_bits)) | (field << fraction_bits) |
           (fraction & ((std::uint64_t{1} << fraction_bits) - 1));
}

TENKEN_BOTH inline std::uint64_t bits_of(std::int64_t value, Operand operand) {
    switch (operand) {
        case Operand::fp64:
            return packed(value, 11, 52);
        case Operand::tf32:
            return packed(value, 8, 23);
        case Operand::fp16:
            return packed(value, 5, 10);
        case Operand::bf16:
            return packed(value, 8, 7);
        case Operand::e4m3:
            return packed(value, 4, 3);
        case Operand::int8:
            return static_cast<std::uint8_t>(value);
    }
    return 0;
}
TENKEN_BOTH inline std::uint64_t bits_of(std::int64_t value, Result result) {
    switch (result) {
        case Result::fp64:
            return packed(value, 11, 52);
        case Result::fp32:
            return packed(value, 8, 23);
        case Result::int32:
            return static_cast<std::uint32_t>(value);
    }
    return 0;
}

/// Word `i` of an array of words of 1, 2, 4 or 8 bytes.
TENKEN_BOTH inline std::uint64_t load(const void* array, std::size_t bytes, std::size_t i) {
    switch (bytes) {
        case 1:
            return static_cast<const std::uint8_t*>(array)[i];
        case 2:
            return static_cast<const std::uint16_t*>(array)[i];
        case 4:
            return static_cast<const std::uint32_t*>(array)[i];
        default:
            return static_cast<const std::uint64_t*>(array)[i];
    }
}
TENKEN_BOTH inline void store(void* array, std::size_t bytes, std::size_t i, std::uint64_t word) {
    switch (bytes) {
        case 1:
            static_cast<std::uint8_t*>(array)[i] = static_cast<std::uint8_t>(word);
            return;
        case 2:
            static_cast<std::uint16_t*>(array)[i] = static_cast<std::uint16_t>(word);
            return;
        case 4:
            static_cast<std::uint32_t*>(array)[i] = static_cast<std::uint32_t>(word);
            return;
        default:
            static_cast<std::uint64_t*>(array)[i] = word;
    }
}

TENKEN_BOTH inline float float_of(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
#endif
}
TENKEN_BOTH inline std::uint32_t bits_of_float(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}
TENKEN_BOTH inline double double_of(std::uint64_t bits) {
#ifdef __CUDA_ARCH__
    return __longlong_as_double(static_cast<long long>(bits));
#else
    double value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
#endif
}
TENKEN_BOTH inline std::uint64_t bits_of_double(double value) {
#ifdef __CUDA_ARCH__
    return static_cast<std::uint64_t>(__double_as_longlong(value));
#else
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}

/// The operands of C = A B, A of rows x k, B of k x columns, by element. Numbers are odd except in the first
/// column of A, and k is even, so every element of C is odd.
struct Operands {
    Operand kind = Operand::fp16;
    std::uint32_t seed_a = 1;
    std::uint32_t seed_b = 2;
    int bits_a = 6;  ///< |a| < 2^bits_a
    int bits_b = 6;
    std::uint32_t k = 0;  ///< rows x k and k x columns below 2^32

    TENKEN_BOTH std::int64_t a(std::uint32_t row, std::uint32_t step) const {
        return number(mixed((row * k + step) ^ seed_a), bits_a) +
               (step == 0 && kind != Operand::int8 ? 1 : 0);
    }
    TENKEN_BOTH std::int64_t b(std::uint32_t column, std::uint32_t step) const {
        return number(mixed((column * k + step) ^ seed_b), bits_b);
    }
    /// Element of C by its definition.
    TENKEN_BOTH std::int64_t product(std::uint32_t row, std::uint32_t column, std::uint32_t from,
                                     std::uint32_t to) const {
        std::uint64_t sum = 0;
        for (std::uint32_t step = from; step < to; ++step)
            sum += static_cast<std::uint64_t>(a(row, step)) * static_cast<std::uint64_t>(b(column, step));
        return static_cast<std::int64_t>(sum);
    }

  private:
    TENKEN_BOTH std::int64_t number(std::uint32_t random, int bits) const {
        if (kind == Operand::int8) return static_cast<std::int64_t>(random & 255) - 128;
        const std::uint32_t mask = (1U << bits) - 1;
        return 2 * static_cast<std::int64_t>(random & mask) - static_cast<std::int64_t>(mask);
    }
};

/// A format of products: what is multiplied, what is stored, and the bits of its numbers. The bits alternate
/// between visits: both of medium length, or one with a full significand and the other with few bits.
struct Format {
    const char* phase;
    Operand operand;
    Result result;
    int bits[3][2];
    std::uint32_t k;  ///< on a GPU: so long that reading C once takes about 1 % of the product
};

// Sums stay below 2^22 (FP32, with two bits to spare) and 2^51 (FP64) at 6 standard deviations. In FP8 they
// stay below 2^13, because its sums have 14 bits until they are added to a sum in FP32.
constexpr Format formats[] = {
    {"gemm_fp64", Operand::fp64, Result::fp64, {{20, 20}, {30, 10}, {10, 30}}, 16384},
    {"gemm_tf32", Operand::tf32, Result::fp32, {{6, 6}, {10, 2}, {2, 10}}, 32768},
    {"gemm_fp16", Operand::fp16, Result::fp32, {{6, 6}, {10, 2}, {2, 10}}, 65536},
    {"gemm_bf16", Operand::bf16, Result::fp32, {{6, 6}, {8, 4}, {4, 8}}, 65536},
    {"gemm_fp8", Operand::e4m3, Result::fp32, {{2, 2}, {3, 1}, {1, 3}}, 65536},
    {"gemm_int8", Operand::int8, Result::int32, {{8, 8}, {8, 8}, {8, 8}}, 131072},
};

/// 16 bytes, the unit of memory phases.
struct alignas(16) Words {
    std::uint32_t w[4];
};

enum class Pattern { inversions, walking, random, rows };

/// The value that pass `pass` of a pattern writes at `index`. Consecutive passes differ in every word, so a
/// word that is written to another place, or not at all, is detected.
TENKEN_BOTH inline Words pattern_at(Pattern pattern, std::uint32_t seed, std::uint32_t pass,
                                    std::uint64_t index) {
    const std::uint32_t low = static_cast<std::uint32_t>(index);
    const std::uint32_t high = static_cast<std::uint32_t>(index >> 32);
    Words made;
    if (pattern == Pattern::walking) {
        // one bit of each word, which moves by one place per pass; every second pass its complement
        const std::uint32_t turn = low + high + pass + seed;
        for (int j = 0; j < 4; ++j) {
            const std::uint32_t bit = 1U << ((turn + static_cast<std::uint32_t>(7 * j)) & 31);
            made.w[j] = (pass & 1) != 0 ? ~bit : bit;
        }
        return made;
    }
    const std::uint32_t of_pass = pattern == Pattern::random ? pass : pass / 2;
    const std::uint32_t base = mixed(low ^ (high * 0x9e3779b1U) ^ mixed(seed + of_pass));
    // rows: neighbouring rows of 1 KiB are complements of each other
    const bool inverted =
        pattern != Pattern::random && (((pass & 1) != 0) != (pattern == Pattern::rows && (low & 64) != 0));
    for (int j = 0; j < 4; ++j) {
        const std::uint32_t word = base * (2U * static_cast<std::uint32_t>(j) + 0x9e3779b1U) + seed;
        made.w[j] = inverted ? ~word : word;
    }
    return made;
}

}  // namespace burn
