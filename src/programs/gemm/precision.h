// The precisions: formats of operands, accumulation, and error bounds of a
// product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/formats.h"

namespace gemm {

/// Format of an element of an operand.
enum class Element { fp64, fp32, tf32, fp16, bf16, int8, e4m3, e5m2, e2m1 };
/// Format of an element of the product.
enum class Output { fp64, fp32, fp16, bf16, int32 };
/// Format of the accumulator, and how it loses digits.
enum class Sums {
    fp64,
    fp32,
    fp8_exact,  ///< FP8 products summed by tensor cores in 14 bits, promoted to FP32 every 128 products
    fp8_fast,   ///< the same, never promoted
    int32
};
/// The arithmetic units.
enum class Units { any, vector, tensor };
/// Scale factors of blocks of the operands.
enum class Scales {
    none,
    fp32_blocks,  ///< FP32, A by 1 x 128 and B by 128 x 128
    ue8m0_32,     ///< powers of two, by 32 along k: the MX formats
    ue4m3_16      ///< E4M3, by 16 along k: NVFP4
};

struct Precision {
    const char* name;
    Element a;
    Element b;
    Output c;
    Sums sums;
    Units units;
    Scales scales;
    bool adds;            ///< C = C - A B instead of C = A B, as in the update of an LU
    std::int64_t square;  ///< order of its square problem if none is given

    /// Bytes of one element of A and of B (half bytes for FP4) and of C.
    double operand_bytes() const;
    std::size_t output_bytes() const;
};

const std::vector<Precision>& precisions();
/// @return null for an unknown name
const Precision* find_precision(const std::string& name);

/// The scale factors of blocks of A and B, exact in every format of scales.
constexpr double scale_a = 2.0;
constexpr double scale_b = 0.5;

/// Element `index` of an operand made from `seed`: uniform in [-0.5, 0.5) and rounded to the format, whole
/// numbers from -127 to 127 for INT8, and for FP4 all of its 16 codes with equal probability.
/// TF32 operands are FP32 numbers that TF32 represents exactly, so that the hardware's conversion is
/// exact.
TENKEN_BOTH inline double operand(Element element, std::uint64_t seed, std::uint64_t index) {
    std::uint64_t z = seed * 0xd1342543de82ef95ULL + (index + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    const double uniform = static_cast<double>(z >> 11) * (1.0 / 9007199254740992.0) - 0.5;
    switch (element) {
        case Element::fp64:
            return uniform;
        case Element::fp32:
            return static_cast<double>(static_cast<float>(uniform));
        case Element::tf32:
            return tenken::rounded(uniform, tenken::formats::tf32());
        case Element::fp16:
            return tenken::rounded(uniform, tenken::formats::fp16());
        case Element::bf16:
            return tenken::rounded(uniform, tenken::formats::bf16());
        case Element::int8:
            return static_cast<double>(static_cast<int>(z % 255) - 127);
        case Element::e4m3:
            return tenken::rounded(uniform, tenken::formats::e4m3());
        case Element::e5m2:
            return tenken::rounded(uniform, tenken::formats::e5m2());
        case Element::e2m1:
            return tenken::decoded(static_cast<unsigned>(z >> 60), tenken::formats::e2m1(), 2);
    }
    return 0;
}

/// Error bound of element (i, j) of a product of k terms (derived in docs/gemm.md):
/// relative x |exact| + spread x |row i of A| |column j of B|, both Euclidean norms, + absolute.
struct Bound {
    double relative;
    double spread;
    double absolute;

    TENKEN_BOTH double of(double exact, double norm_a, double norm_b) const {
        return relative * fabs(exact) + spread * norm_a * norm_b + absolute;
    }
};
Bound bound_of(const Precision& precision, std::int64_t k);

/// A number as stored in C.
double stored(double value, Output output);

/// One product: A is m x k, B is k x n, `batch` of them.
struct Shape {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    std::int64_t batch = 1;

    double operations() const {
        return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
               static_cast<double>(batch);
    }
    /// "16384x16384x16384", "512x512x512x256" with a batch.
    std::string text() const;
};

struct Case {
    const Precision* precision;
    Shape shape;
    std::string text() const { return std::string(precision->name) + ":" + shape.text(); }
};

/// Parses "fp16,bf16:8192,fp8_e4m3:65536x65536x2048,fp16:512x512x512x256"; a precision by itself has its
/// square problem, or `square` if that is above 0. "all" stands for all precisions.
/// @throws std::invalid_argument with the expected form
std::vector<Case> parse_cases(const std::string& text, std::int64_t square);

}  // namespace gemm
