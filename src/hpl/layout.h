// Who holds what: the matrix [A | b] of N rows and N + 1 columns in blocks of NB x NB, dealt out over a grid
// of P x Q processes as cards are; and the steps in which it is factorised.
#pragma once

#include <cstdint>
#include <vector>

namespace hpl {

/// One dimension of the block-cyclic distribution: global indices in blocks over `count` processes.
struct Cyclic {
    std::int64_t block;
    int count;
    int mine;  ///< this process

    int owner(std::int64_t global) const { return static_cast<int>(global / block % count); }
    bool owns(std::int64_t global) const { return owner(global) == mine; }
    /// How many of the global indices below `end` are of process `mine`: also the local index of the first
    /// one of `mine` that is not below `end`.
    std::int64_t below(std::int64_t end) const {
        const std::int64_t whole = end / block;
        const std::int64_t all = whole / count * block;
        const std::int64_t extra = whole % count;
        return all + (mine < extra ? block : mine == extra ? end % block : 0);
    }
    std::int64_t global(std::int64_t local) const {
        return (local / block * count + mine) * block + local % block;
    }
};

/// The part of [A | b] that one process holds, row after row: element (i, j) of the part is at i * stride +
/// j.
struct Layout {
    /// @param n order; @param nb block; @param p, q rows and columns of the grid; @param row, column this
    /// process
    Layout(std::int64_t n, std::int64_t nb, int p, int q, int row, int column);

    std::int64_t n;
    std::int64_t nb;
    Cyclic rows;
    Cyclic columns;
    std::int64_t local_rows;
    std::int64_t local_columns;   ///< of the N + 1
    std::int64_t padded_columns;  ///< up to a multiple of `alignment`; what is beyond is zero
    std::int64_t stride;  ///< a multiple of `alignment`, and of no higher power of two than twice that

    std::uint64_t bytes() const {
        return sizeof(double) * static_cast<std::uint64_t>(local_rows) * static_cast<std::uint64_t>(stride);
    }
    bool one_row() const { return rows.count == 1; }
};

/// Doubles in 128 bytes: what rows of matrices are aligned to.
constexpr std::int64_t alignment = 16;
inline std::int64_t aligned(std::int64_t count) {
    return (count + alignment - 1) / alignment * alignment;
}

/// Columns [begin, begin + width) are eliminated together; no step crosses the border of a block.
struct Step {
    std::int64_t begin;
    std::int64_t width;
    std::int64_t end() const { return begin + width; }
};

/// Steps as wide as a block while at least `taper` widths of the matrix remain, then half as wide and so on,
/// not below `least`: towards the end there is too little to update in which a wide panel could hide.
std::vector<Step> plan_steps(std::int64_t n, std::int64_t nb, std::int64_t taper, std::int64_t least);

/// What a step needs of the panel buffer: rows [begin, n) of its columns, column after column.
struct PanelShape {
    PanelShape(const Layout& layout, const Step& step)
        : rows(layout.n - step.begin), width(step.width), stride(aligned(rows)) {}
    std::int64_t rows;
    std::int64_t width;
    std::int64_t stride;
    std::int64_t doubles() const { return stride * width; }
};

}  // namespace hpl
