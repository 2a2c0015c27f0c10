// Distribution of the matrix [A | b] of N rows and N + 1 columns, row-major.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/lu/distribution.h"

namespace hpl {

using lu::Cyclic;
using lu::plan_steps;
using lu::Step;

/// The part of [A | b] in one process, row-major: element (i, j) of the part is at i * stride +
/// j.
struct Layout : lu::Distribution {
    /// @param n order; @param nb block; @param p, q rows and columns of the grid; @param row, column this
    /// process
    Layout(std::int64_t n, std::int64_t nb, int p, int q, int row, int column);

    std::int64_t padded_columns;  ///< up to a multiple of `alignment`; the padding is zero
    std::int64_t stride;  ///< a multiple of `alignment`, and of no higher power of two than twice that

    std::uint64_t bytes() const {
        return sizeof(double) * static_cast<std::uint64_t>(local_rows) * static_cast<std::uint64_t>(stride);
    }
};

/// Doubles in 128 bytes: alignment of matrix rows.
constexpr std::int64_t alignment = 16;
inline std::int64_t aligned(std::int64_t count) {
    return (count + alignment - 1) / alignment * alignment;
}

/// The part of the panel buffer that a step needs: rows [begin, n) of its columns, column-major.
struct PanelShape {
    PanelShape(const Layout& layout, const Step& step)
        : rows(layout.n - step.begin), width(step.width), stride(aligned(rows)) {}
    std::int64_t rows;
    std::int64_t width;
    std::int64_t stride;
    std::int64_t doubles() const { return stride * width; }
};

}  // namespace hpl
