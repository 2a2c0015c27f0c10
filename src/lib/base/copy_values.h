// The values that are copied; writing and comparing them on the host.
#pragma once

#include <cstddef>
#include <memory>

#include "lib/base/host_array.h"
#include "lib/base/verification.h"

namespace tenken {

/// The value of element i: different for adjacent elements and for different patterns, and exact, so that
/// no tolerance is needed. A new pattern in the source distinguishes later copies from earlier ones.
constexpr std::size_t copy_period = 1021;
inline double copy_value(std::size_t i, int pattern) {
    return static_cast<double>(pattern) + static_cast<double>(i % copy_period) / 1024.0;
}

/// An array of doubles that frees itself, in any kind of memory.
typedef std::shared_ptr<double> Buffer;

/// Memory of malloc, aligned to 4096 bytes and untouched. @throws std::bad_alloc
Buffer allocate_pageable(std::size_t elements);

/// Writes copy_value(i, pattern) to every element by the host's threads, each to its share (first touch).
inline void fill_on_host(double* array, std::size_t elements, int pattern) {
    in_shares(elements, [=](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) array[i] = copy_value(i, pattern);
    });
}

/// Compares every element with copy_value(i, pattern) on the host.
inline ErrorScan compare_on_host(const double* array, std::size_t elements, int pattern) {
    ErrorScan errors(0);
    scan(errors, array, elements, 0, 0, [=](std::size_t i) { return copy_value(i, pattern); });
    return errors;
}

}  // namespace tenken
