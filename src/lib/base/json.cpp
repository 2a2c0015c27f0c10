#include "lib/base/json.h"

#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace tenken {

namespace {

/// The length in bytes of the UTF-8 sequence that begins at text[i], 0 if it is invalid.
std::size_t utf8_length(const std::string& text, std::size_t i) {
    const auto byte = [&](std::size_t k) -> unsigned {
        return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
    };
    const auto follows = [&](std::size_t k) { return (byte(k) & 0xC0u) == 0x80u; };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
    if (first >= 0xE0 && first <= 0xEF) {
        // Overlong forms (E0 80..9F) and surrogates (ED A0..BF) are not UTF-8.
        if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
        return follows(1) && follows(2) ? 3 : 0;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
        return follows(1) && follows(2) && follows(3) ? 4 : 0;
    }
    return 0;
}

std::string printed(double value, int digits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    return text;
}

/// A library may have set a locale with a decimal comma; JSON requires a point.
std::string with_point(std::string text) {
    const char* mark = std::localeconv()->decimal_point;
    const std::size_t at = text.find(mark);
    if (mark[0] != '.' && at != std::string::npos) text.replace(at, std::string(mark).size(), ".");
    return text;
}

}  // namespace

std::string shortest(double value) {
    if (!std::isfinite(value)) throw NotFinite("not a finite number");
    // Any number of at most 15 digits is found by %.15g, except for subnormals, which have fewer.
    const bool normal = std::fpclassify(value) != FP_SUBNORMAL;
    for (int digits = normal ? 15 : 1; digits < 17; ++digits) {
        const std::string text = printed(value, digits);
        if (std::strtod(text.c_str(), nullptr) == value) return with_point(text);
    }
    return with_point(printed(value, 17));
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t length = utf8_length(text, i);
        const char c = text[i];
        if (length == 0) {
            out += "\xEF\xBF\xBD";
            ++i;
            continue;
        }
        if (length > 1) {
            out.append(text, i, length);
        } else if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\t') {
            out += "\\t";
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
            out += escaped;
        } else {
            out += c;
        }
        i += length;
    }
    return out + '"';
}

Json::Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;
Json::Json(std::nullptr_t) {}
Json::Json(bool value) : type_(Type::boolean), boolean_(value) {}
Json::Json(int value) : type_(Type::text_as_is), text_(std::to_string(value)) {}
Json::Json(unsigned value) : type_(Type::text_as_is), text_(std::to_string(value)) {}
Json::Json(long value) : type_(Type::text_as_is), text_(std::to_string(value)) {}
Json::Json(long long value) : type_(Type::text_as_is), text_(std::to_string(value)) {}
Json::Json(unsigned long value) : type_(Type::text_as_is), text_(std::to_string(value)) {}
Json::Json(unsigned long long value) : type_(Type::text_as_is), text_(std::to_string(value)) {}
Json::Json(const char* value) : type_(Type::string), text_(value) {}
Json::Json(std::string value) : type_(Type::string), text_(std::move(value)) {}
Json::Json(double value) : type_(Type::text_as_is), text_(shortest(value)) {}

Json Json::object() {
    Json json;
    json.type_ = Type::object;
    return json;
}

Json Json::array() {
    Json json;
    json.type_ = Type::array;
    return json;
}

Json Json::verbatim(std::string text) {
    Json json;
    json.type_ = Type::text_as_is;
    json.text_ = std::move(text);
    return json;
}

Json& Json::set(const std::string& key, Json value) {
    if (type_ != Type::object) throw std::logic_error("Json::set on something that is not an object");
    for (std::size_t i = 0; i < keys_.size(); ++i) {
        if (keys_[i] == key) {
            values_[i] = std::move(value);
            return *this;
        }
    }
    keys_.push_back(key);
    values_.push_back(std::move(value));
    return *this;
}

Json& Json::push(Json value) {
    if (type_ != Type::array) throw std::logic_error("Json::push on something that is not an array");
    values_.push_back(std::move(value));
    return *this;
}

void Json::write(std::string& out) const {
    switch (type_) {
        case Type::null:
            out += "null";
            return;
        case Type::boolean:
            out += boolean_ ? "true" : "false";
            return;
        case Type::text_as_is:
            out += text_;
            return;
        case Type::string:
            out += quoted(text_);
            return;
        case Type::array:
        case Type::object:
            break;
    }
    const bool is_object = type_ == Type::object;
    out += is_object ? '{' : '[';
    for (std::size_t i = 0; i < values_.size(); ++i) {
        if (i > 0) out += ',';
        if (is_object) out += quoted(keys_[i]) + ":";
        values_[i].write(out);
    }
    out += is_object ? '}' : ']';
}

std::string Json::listed() const {
    if (type_ != Type::object) return dump();
    std::string out;
    for (std::size_t i = 0; i < values_.size(); ++i) {
        out += (i > 0 ? ", " : "") + keys_[i] + " ";
        out += values_[i].type_ == Type::string ? values_[i].text_ : values_[i].dump();
    }
    return out;
}

std::string Json::dump() const {
    std::string out;
    write(out);
    return out;
}

}  // namespace tenken
