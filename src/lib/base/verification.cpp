#include "lib/base/verification.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace tenken {

double relative_error(double value, double expected) {
    const double difference = std::fabs(value - expected);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    return expected == 0 ? difference : difference / std::fabs(expected);
}

void ErrorScan::note(std::size_t index, double value, double expected) {
    first_ = index;
    value_ = value;
    expected_ = expected;
}

void ErrorScan::merge(const ErrorScan& other) {
    if (other.largest_ > largest_) largest_ = other.largest_;
    if (other.first_ < first_) note(other.first_, other.value_, other.expected_);
}

Check ErrorScan::check(const std::string& what) const {
    Check check;
    check.what = what;
    check.error = largest_;
    check.tolerance = tolerance_;
    if (first_ != SIZE_MAX) {
        const std::string found = std::isfinite(value_) ? shortest(value_) : "not finite";
        check.detail = "element " + std::to_string(first_) + " is " + found + ", expected " +
                       (std::isfinite(expected_) ? shortest(expected_) : "not finite");
    }
    return check;
}

Json Check::json() const {
    Json json = Json::object();
    json.set("name", what).set("error", std::isfinite(error) ? Json(error) : Json());
    if (!detail.empty()) json.set("first_wrong", detail);
    return json;
}

double with_flipped_bit(double value) {
    std::uint64_t bits = 0;
    static_assert(sizeof bits == sizeof value, "a double has 64 bits");
    std::memcpy(&bits, &value, sizeof bits);
    return double_of_bits(bits ^ std::uint64_t{1} << 39);
}

double double_of_bits(std::uint64_t bits) {
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace tenken
