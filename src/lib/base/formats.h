// Floating-point formats narrower than single precision: rounding, encoding and decoding by their definition
// (IEEE 754 binary16; bfloat16; OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats 1.0).
// They are the same on host and GPU, so the host's emulation and a GPU use identical numbers.
#pragma once

#include <math.h>  // the names without std:: also compile for the GPU

#ifdef __CUDACC__
#define TENKEN_BOTH __host__ __device__
#else
#define TENKEN_BOTH
#endif

namespace tenken {

/// A binary format with subnormal numbers.
struct Format {
    int digits;        ///< of the significand, including the leading one
    int min_exponent;  ///< of the smallest normal number, 2^min_exponent
    double largest;    ///< finite value
    bool saturates;    ///< overflow gives the largest number (as conversions for matrices do), otherwise
                       ///< infinity

    /// Half the distance from 1 to the next number: the maximum relative rounding error of a normal number.
    TENKEN_BOTH double unit_roundoff() const { return ldexp(1.0, -digits); }
    TENKEN_BOTH double min_normal() const { return ldexp(1.0, min_exponent); }
};

namespace formats {
TENKEN_BOTH inline Format fp16() {
    return {11, -14, 65504.0, false};
}
TENKEN_BOTH inline Format bf16() {
    return {8, -126, 3.3895313892515355e38, false};
}
TENKEN_BOTH inline Format tf32() {
    return {11, -126, 3.4011621342146535e38, false};
}
TENKEN_BOTH inline Format e4m3() {
    return {4, -6, 448.0, true};
}
TENKEN_BOTH inline Format e5m2() {
    return {3, -14, 57344.0, true};
}
TENKEN_BOTH inline Format e2m1() {
    return {2, 0, 6.0, true};
}
}  // namespace formats

/// The number of the format nearest to `value`, ties to even.
TENKEN_BOTH inline double rounded(double value, const Format& format) {
    if (!(value == value) || value == 0) return value;
    int exponent = 0;
    frexp(value, &exponent);  // |value| in [2^(exponent - 1), 2^exponent)
    const int normal = exponent - 1 > format.min_exponent ? exponent - 1 : format.min_exponent;
    const int step = normal - format.digits + 1;
    const double result = ldexp(rint(ldexp(value, -step)), step);
    if (fabs(result) <= format.largest) return result;
    if (format.saturates) return value < 0 ? -format.largest : format.largest;
    return value < 0 ? -HUGE_VAL : HUGE_VAL;
}

/// The bits of a number of the format, which has `exponent_bits`: sign, exponent, fraction from high to low.
/// The value must be finite and representable, as returned by rounded().
TENKEN_BOTH inline unsigned encoded(double value, const Format& format, int exponent_bits) {
    const int fraction_bits = format.digits - 1;
    const unsigned sign = value < 0 ? 1u << (exponent_bits + fraction_bits) : 0u;
    const double size = fabs(value);
    if (size == 0) return sign;
    int exponent = 0;
    frexp(size, &exponent);
    const bool subnormal = exponent - 1 < format.min_exponent;
    const int field = subnormal ? 0 : exponent - 1 - format.min_exponent + 1;
    const int base = subnormal ? format.min_exponent : exponent - 1;
    const unsigned units = static_cast<unsigned>(ldexp(size, fraction_bits - base));
    const unsigned fraction = subnormal ? units : units - (1u << fraction_bits);
    return sign | (static_cast<unsigned>(field) << fraction_bits) | fraction;
}

/// The number with these bits; the codes of infinities and NaN are read as numbers.
TENKEN_BOTH inline double decoded(unsigned bits, const Format& format, int exponent_bits) {
    const int fraction_bits = format.digits - 1;
    const unsigned fraction = bits & ((1u << fraction_bits) - 1);
    const int field = static_cast<int>((bits >> fraction_bits) & ((1u << exponent_bits) - 1));
    const bool negative = ((bits >> (exponent_bits + fraction_bits)) & 1u) != 0;
    const double size = field == 0 ? ldexp(static_cast<double>(fraction), format.min_exponent - fraction_bits)
                                   : ldexp(static_cast<double>(fraction + (1u << fraction_bits)),
                                           field - 1 + format.min_exponent - fraction_bits);
    return negative ? -size : size;
}

}  // namespace tenken
