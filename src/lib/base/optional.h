// A value that may be absent: values that a machine does not report are absent, never invented.
#pragma once

#include <utility>

namespace tenken {

/// Either a T or nothing. (std::optional is C++17; this is the part of it used by the suite.)
template <typename T>
class Optional {
  public:
    Optional() = default;
    Optional(T value) : value_(std::move(value)), present_(true) {}  // NOLINT: conversion intended

    explicit operator bool() const { return present_; }
    /// Undefined if absent: check first.
    const T& operator*() const { return value_; }
    const T* operator->() const { return &value_; }
    T value_or(T other) const { return present_ ? value_ : other; }

  private:
    T value_{};
    bool present_ = false;
};

}  // namespace tenken
