#include <cmath>
#include <string>

#include "programs/gemm/precision.h"
#include "unit.h"

TEST(an_element_of_a_product_is_held_by_the_bound_of_its_own_precision) {
    // With 64 terms eight standard deviations equal the norms. Each bound has the roundoff of C, the digits
    // that sums lose, and half of the smallest number of C's format.
    struct {
        const char* name;
        int relative, spread, absolute;  // exponents of 2; 0: none
    } const known[] = {{"fp64", -53, -48, 0},     {"fp32", -24, -20, 0},     {"tf32", -24, -20, 0},
                       {"fp16", -11, -20, -25},   {"fp16_c32", -24, -20, 0}, {"bf16", -8, -20, 0},
                       {"bf16_c32", -24, -20, 0}, {"int8", 0, 0, -1}};
    const auto power = [](int exponent) { return exponent == 0 ? 0 : std::ldexp(1.0, exponent); };
    for (const auto& one : known) {
        const gemm::Precision* const precision = gemm::find_precision(one.name);
        CHECK(precision != nullptr);
        const gemm::Bound bound = gemm::bound_of(*precision, 64);
        CHECK(bound.relative == power(one.relative));
        CHECK(bound.spread == power(one.spread));
        CHECK(bound.absolute == power(one.absolute));
    }
    // C of FP8 products is BF16 or FP32; tensor cores keep 14 digits of sums, of 32 products each where these
    // are fast
    CHECK(gemm::bound_of(*gemm::find_precision("fp8_e4m3"), 64).relative == power(-8));
    CHECK(gemm::bound_of(*gemm::find_precision("fp8_c32"), 64).relative == power(-24));
    CHECK(gemm::bound_of(*gemm::find_precision("fp8_e4m3"), 64).spread == power(-11) + power(-23));
    CHECK(gemm::bound_of(*gemm::find_precision("fp8_e4m3_fast"), 64).spread == power(-13));
}
