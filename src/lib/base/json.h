// A small JSON writer: correct escaping, shortest round-trip numbers, finite numbers only.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/optional.h"

namespace tenken {

/// Thrown for a number that JSON cannot represent (inf, nan).
class NotFinite : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// A JSON value. Objects keep the order in which keys were set.
class Json {
  public:
    // All of it is compiled once, in json.cpp: programs make and copy many values, where no time matters.
    Json();  // null
    Json(const Json& other);
    Json(Json&& other) noexcept;
    Json& operator=(const Json& other);
    Json& operator=(Json&& other) noexcept;
    ~Json();
    Json(std::nullptr_t);
    Json(bool value);
    Json(int value);
    Json(unsigned value);
    Json(long value);
    Json(long long value);
    Json(unsigned long value);
    Json(unsigned long long value);
    /// @throws NotFinite for inf and nan
    Json(double value);
    Json(const char* value);
    Json(std::string value);
    template <typename T>
    Json(const std::vector<T>& values) : Json(array()) {
        for (const T& value : values) push(Json(value));
    }
    template <typename T>
    Json(const Optional<T>& value) : Json(value ? Json(*value) : Json()) {}

    static Json object();
    static Json array();
    /// Text that is already JSON: written by another process.
    static Json verbatim(std::string text);

    /// Sets a key of an object; a key set before is replaced in place.
    /// @throws std::logic_error when this is not an object
    Json& set(const std::string& key, Json value);
    /// Appends to an array. @throws std::logic_error when this is not an array
    Json& push(Json value);
    bool empty() const { return keys_.empty() && values_.empty(); }

    bool is_null() const { return type_ == Type::null; }

    /// Text of an object, for people: "element 5, value 3, expected 4".
    std::string listed() const;
    /// The text, without any space.
    std::string dump() const;

  private:
    enum class Type { null, boolean, text_as_is, string, array, object };

    void write(std::string& out) const;

    Type type_ = Type::null;
    bool boolean_ = false;
    std::string text_;
    std::vector<std::string> keys_;
    std::vector<Json> values_;
};

/// The shortest decimal text that reads back as exactly this double. @throws NotFinite
std::string shortest(double value);

/// A JSON string literal, quotes included; bytes that are not UTF-8 become U+FFFD.
std::string quoted(const std::string& text);

}  // namespace tenken
