// Comparison of computed with expected values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/json.h"
#include "lib/base/optional.h"

namespace tenken {

/// One line of the document's `verification`.
struct Check {
    std::string what;  ///< e.g. "array a, every element, relative error"
    double error = 0;  ///< may be inf or nan, which never passes and is written as null
    double tolerance = 0;
    std::string detail;  ///< the first wrong element: index, value and expected value

    bool passed() const { return error <= tolerance; }  // false for nan
    Json json() const;
};

/// |value - expected| / |expected|, absolute if expected is 0; inf if value is not finite.
double relative_error(double value, double expected);

/// Collects the maximum relative error over many elements, and the first element beyond the tolerance.
/// One per thread; merge() keeps the lower index, so the result does not depend on the threads.
class ErrorScan {
  public:
    explicit ErrorScan(double tolerance) : tolerance_(tolerance) {}

    void compare(std::size_t index, double value, double expected) {
        const double error = relative_error(value, expected);
        if (error > largest_) largest_ = error;
        if (!(error <= tolerance_) && index < first_) note(index, value, expected);
    }
    void merge(const ErrorScan& other);
    /// Adds the maximum error of a scan made elsewhere (on a GPU).
    void take(double largest) {
        if (largest > largest_) largest_ = largest;
    }
    /// @param what describes the data; the detail is "element I is V, expected E"
    Check check(const std::string& what) const;

  private:
    void note(std::size_t index, double value, double expected);

    double tolerance_;
    double largest_ = 0;
    std::size_t first_ = SIZE_MAX;
    double value_ = 0;
    double expected_ = 0;
};

/// Compares value[i] with expected(i) for i in [0, count), in parallel.
/// @param first index of value[0] in the whole array, added to i for expected() and in messages
template <typename Expected>
void scan(ErrorScan& total, const double* value, std::size_t count, std::size_t first, double tolerance,
          Expected expected) {
#pragma omp parallel
    {
        ErrorScan mine(tolerance);
#pragma omp for schedule(static)
        for (std::size_t i = 0; i < count; ++i) mine.compare(first + i, value[i], expected(first + i));
#pragma omp critical(tenken_scan)
        total.merge(mine);
    }
}

/// A double with one bit of its significand flipped: the smallest memory fault that a verification to about
/// 1e-9 must detect (relative change 2^-13 to 2^-12).
double with_flipped_bit(double value);

/// The double with these bits.
double double_of_bits(std::uint64_t bits);

}  // namespace tenken
