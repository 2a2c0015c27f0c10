#include "programs/gemm/precision.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <stdexcept>

namespace gemm {

namespace {

/// Minimum number of terms added by one tensor core instruction: sums lose digits once for each.
constexpr double terms_together = 8;
/// Bits that the tensor cores of compute capability 8.9 and 9.0 keep of sums of FP8 products, including the
/// leading one, and the number of products after which cuBLAS promotes them to FP32 unless sums are fast.
constexpr int fp8_sum_digits = 14;
constexpr double fp8_terms_together = 32;
constexpr double fp8_carry_over = 128;
/// Upper bound of a partial sum of random terms, in standard deviations.
constexpr double deviations = 8;

}  // namespace

double Precision::operand_bytes() const {
    switch (a) {
        case Element::fp64:
            return 8;
        case Element::fp32:
        case Element::tf32:
            return 4;
        case Element::fp16:
        case Element::bf16:
            return 2;
        case Element::int8:
        case Element::e4m3:
        case Element::e5m2:
            return 1;
        case Element::e2m1:
            return 0.5;
    }
    return 8;
}

std::size_t Precision::output_bytes() const {
    switch (c) {
        case Output::fp64:
            return 8;
        case Output::fp32:
        case Output::int32:
            return 4;
        case Output::fp16:
        case Output::bf16:
            return 2;
    }
    return 8;
}

const std::vector<Precision>& precisions() {
    using E = Element;
    using O = Output;
    using S = Sums;
    using U = Units;
    using F = Scales;
    static const std::vector<Precision> list = {
        {"fp64", E::fp64, E::fp64, O::fp64, S::fp64, U::vector, F::none, false, 8192},
        {"fp64_tensor", E::fp64, E::fp64, O::fp64, S::fp64, U::tensor, F::none, false, 8192},
        {"fp32", E::fp32, E::fp32, O::fp32, S::fp32, U::vector, F::none, false, 8192},
        {"tf32", E::tf32, E::tf32, O::fp32, S::fp32, U::any, F::none, false, 16384},
        {"fp16", E::fp16, E::fp16, O::fp16, S::fp32, U::any, F::none, false, 16384},
        {"fp16_c32", E::fp16, E::fp16, O::fp32, S::fp32, U::any, F::none, true, 16384},
        {"bf16", E::bf16, E::bf16, O::bf16, S::fp32, U::any, F::none, false, 16384},
        {"bf16_c32", E::bf16, E::bf16, O::fp32, S::fp32, U::any, F::none, true, 16384},
        {"int8", E::int8, E::int8, O::int32, S::int32, U::any, F::none, false, 16384},
        {"fp8_e4m3", E::e4m3, E::e4m3, O::bf16, S::fp8_exact, U::any, F::none, false, 16384},
        {"fp8_e4m3_fast", E::e4m3, E::e4m3, O::bf16, S::fp8_fast, U::any, F::none, false, 16384},
        {"fp8_e5m2", E::e5m2, E::e4m3, O::bf16, S::fp8_exact, U::any, F::none, false, 16384},
        {"fp8_e5m2_fast", E::e5m2, E::e4m3, O::bf16, S::fp8_fast, U::any, F::none, false, 16384},
        {"fp8_c32", E::e4m3, E::e4m3, O::fp32, S::fp8_exact, U::any, F::none, true, 16384},
        {"fp8_blocks", E::e4m3, E::e4m3, O::bf16, S::fp8_exact, U::any, F::fp32_blocks, false, 16384},
        {"mxfp8", E::e4m3, E::e4m3, O::bf16, S::fp8_exact, U::any, F::ue8m0_32, false, 16384},
        {"nvfp4", E::e2m1, E::e2m1, O::bf16, S::fp8_exact, U::any, F::ue4m3_16, false, 16384},
        {"mxfp4", E::e2m1, E::e2m1, O::bf16, S::fp8_exact, U::any, F::ue8m0_32, false, 16384},
    };
    return list;
}

const Precision* find_precision(const std::string& name) {
    for (const Precision& one : precisions()) {
        if (name == one.name) return &one;
    }
    return nullptr;
}

Bound bound_of(const Precision& precision, std::int64_t terms) {
    const double k = static_cast<double>(terms);
    Bound bound = {0, 0, 0};
    switch (precision.c) {
        case Output::fp64:
            bound.relative = std::ldexp(1.0, -53);
            break;
        case Output::fp32:
            bound.relative = std::ldexp(1.0, -24);
            break;
        case Output::fp16:
            bound.relative = tenken::formats::fp16().unit_roundoff();
            bound.absolute = std::ldexp(1.0, -25);  // half the distance between subnormal numbers
            break;
        case Output::bf16:
            bound.relative = tenken::formats::bf16().unit_roundoff();
            break;
        case Output::int32:
            bound.absolute = 0.5;  // whole numbers: any error is detected
            return bound;
    }
    // |row| |column| / sqrt(k) is the standard deviation of one of k random terms times sqrt(k): that of the
    // whole sum. Partial sums stay below `deviations` of these, and each loss of digits is at most one unit
    // (tensor cores truncate instead of rounding).
    const double whole_sum = deviations / std::sqrt(k);
    const double short_unit = std::ldexp(1.0, 1 - fp8_sum_digits);
    const double blocks = std::ceil(k / fp8_carry_over);
    switch (precision.sums) {
        case Sums::fp64:
            bound.spread = whole_sum * std::max(1.0, k / 4) * std::ldexp(1.0, -52);
            break;
        case Sums::fp32:
            bound.spread = whole_sum * std::max(1.0, k / terms_together) * std::ldexp(1.0, -23);
            break;
        case Sums::fp8_exact:
            // Within a block of 128, digits of that block's sum are lost four times; the sum is sqrt(128 / k)
            // of the whole. The errors of blocks are independent except for truncation, which removes a part
            // of each block's sum.
            bound.spread = whole_sum *
                           (fp8_carry_over / fp8_terms_together * short_unit + blocks * std::ldexp(1.0, -23));
            break;
        case Sums::fp8_fast:
            bound.spread = whole_sum * 0.5 * std::max(1.0, k / fp8_terms_together) * short_unit;
            break;
        case Sums::int32:
            break;
    }
    return bound;
}

double stored(double value, Output output) {
    switch (output) {
        case Output::fp64:
            return value;
        case Output::fp32:
            return static_cast<double>(static_cast<float>(value));
        case Output::fp16:
            return tenken::rounded(value, tenken::formats::fp16());
        case Output::bf16:
            return tenken::rounded(value, tenken::formats::bf16());
        case Output::int32:
            return std::rint(value);
    }
    return value;
}

std::string Shape::text() const {
    std::string text = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    if (batch > 1) text += "x" + std::to_string(batch);
    return text;
}

std::vector<Case> parse_cases(const std::string& text, std::int64_t square) {
    std::string names;
    for (const Precision& one : precisions()) names += (names.empty() ? "" : ", ") + std::string(one.name);
    const std::string expected =
        "all, or PRECISION[:N or :MxNxK or :MxNxKxBATCH] with commas between, precisions being " + names +
        ", sizes multiples of 16";
    std::vector<Case> cases;
    std::istringstream words(text == "all" ? names : text);
    std::string word;
    while (std::getline(words, word, ',')) {
        word.erase(0, word.find_first_not_of(' '));
        const std::size_t colon = word.find(':');
        const Precision* const precision = find_precision(word.substr(0, colon));
        if (precision == nullptr) throw std::invalid_argument(expected);
        Shape shape;
        if (colon == std::string::npos) {
            shape.m = shape.n = shape.k = square > 0 ? square : precision->square;
        } else {
            long long sizes[4] = {0, 0, 0, 1};
            char rest = 0;
            const std::string given = word.substr(colon + 1);
            const int read = std::sscanf(given.c_str(), "%7lldx%7lldx%7lldx%7lld%c", &sizes[0], &sizes[1],
                                         &sizes[2], &sizes[3], &rest);
            const auto times = std::count(given.begin(), given.end(), 'x');
            if (read != times + 1 || (read != 1 && read != 3 && read != 4))
                throw std::invalid_argument(expected);
            if (read == 1) sizes[1] = sizes[2] = sizes[0];
            shape.m = sizes[0];
            shape.n = sizes[1];
            shape.k = sizes[2];
            shape.batch = sizes[3];
        }
        for (std::int64_t size : {shape.m, shape.n, shape.k})
            if (size < 16 || size > 1000000 || size % 16 != 0) throw std::invalid_argument(expected);
        if (shape.batch < 1 || shape.batch > 65535) throw std::invalid_argument(expected);
        const Case made = {precision, shape};
        for (const Case& before : cases)
            if (before.text() == made.text())
                throw std::invalid_argument("each case once; listed twice: " + word);
        cases.push_back(made);
    }
    if (cases.empty()) throw std::invalid_argument(expected);
    return cases;
}

}  // namespace gemm
