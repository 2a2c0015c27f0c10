#include "lib/base/verification.h"

#include <algorithm>
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

Check ErrorScan::check(const Verified& of, const Subject& subject, At at) const {
    Check check = {of, subject, std::move(at), largest_};
    if (first_ != SIZE_MAX) {
        check.first_wrong = Json::object().set("element", first_).set("value", number_or_name(value_));
        check.first_wrong.set("expected", number_or_name(expected_));
    }
    return check;
}

std::string id_of(const std::string& name, const Subject& subject, const At& at) {
    std::vector<std::string> coordinates;
    for (const auto& one : at) {
        std::string text = one.second.dump();
        text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
        coordinates.push_back("." + one.first + "=" + text);
    }
    std::sort(coordinates.begin(), coordinates.end());
    std::string id = name + "." + subject.text();
    for (const std::string& one : coordinates) id += one;
    return id;
}

Json number_or_name(double value) {
    return std::isfinite(value) ? Json(value)
           : std::isnan(value)  ? Json("nan")
                                : Json(value > 0 ? "inf" : "-inf");
}

Json Check::json() const {
    Json json = Json::object();
    json.set("name", of.name).set("subject", subject.json());
    if (!at.empty()) {
        Json where = Json::object();
        for (const auto& one : at) where.set(one.first, one.second);
        json.set("at", where);
    }
    json.set("error", std::isfinite(error) ? Json(error) : Json());
    if (!first_wrong.is_null()) json.set("first_wrong", first_wrong);
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
