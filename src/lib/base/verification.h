// Comparison of computed with expected values.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/json.h"
#include "lib/base/subject.h"

namespace tenken {

/// Coordinates of a value, with the unit in the key: {"bytes", 4096}.
using At = std::vector<std::pair<std::string, Json>>;

/// name.subject[.key=value...], keys in alphabetical order.
std::string id_of(const std::string& name, const Subject& subject, const At& at);

/// A verification as metrics.yaml declares it: a function of catalogue/PROGRAM.h, which is generated.
struct Verified {
    const char* name;
    double tolerance;
};

template <std::size_t count>
Verified verified_among(const Verified (&all)[count], const std::string& name) {
    for (const Verified& one : all)
        if (name == one.name) return one;
    throw std::logic_error("metrics.yaml declares no verification " + name);
}

/// One line of the document's `verification`.
struct Check {
    Verified of = {"", 0};
    Subject subject = Subject::host();
    At at = {};
    double error = 0;           ///< may be inf or nan, which never passes and is written as null
    Json first_wrong = Json();  ///< an object: index of the first wrong element, its value, the expected one

    bool passed() const { return error <= of.tolerance; }  // false for nan
    std::string id() const { return id_of(of.name, subject, at); }
    Json json() const;
};

/// A number as JSON, or "inf", "-inf" or "nan".
Json number_or_name(double value);

/// The comparison of all ranks: the largest error of any, and the first wrong element of the first rank that
/// has one. @tparam Processes Ranks or mpi::World
template <typename Processes>
Check of_all(Check mine, Processes& ranks) {
    const std::string wrong = mine.first_wrong.dump();
    mine.error = ranks.largest({std::isfinite(mine.error) ? mine.error : 1e300}).front();
    for (const std::string& one : ranks.gather(wrong)) {
        if (one == "null") continue;
        if (one != wrong) mine.first_wrong = Json::verbatim(one);
        break;
    }
    return mine;
}

/// |value - expected| / |expected|, absolute if expected is 0; inf if value is not finite.
double relative_error(double value, double expected);

/// The double of which a message has only the first bytes. Those of `base + i / 1024` are zero in every
/// message; these differ between two bases already in the first.
/// @param base a whole number
#ifdef __CUDACC__
__host__ __device__
#endif
    inline double cut_off(double base) {
    return 1 + base * 2.220446049250313e-16;  // the distance from 1 to the next double
}

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
    bool passed() const { return first_ == SIZE_MAX && largest_ <= tolerance_; }
    Check check(const Verified& of, const Subject& subject = Subject::host(), At at = {}) const;

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
template <typename Value, typename Expected>
void scan(ErrorScan& total, const Value* value, std::size_t count, std::size_t first, double tolerance,
          Expected expected) {
#pragma omp parallel
    {
        ErrorScan mine(tolerance);
#pragma omp for schedule(static)
        for (std::size_t i = 0; i < count; ++i)
            mine.compare(first + i, static_cast<double>(value[i]), expected(first + i));
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
