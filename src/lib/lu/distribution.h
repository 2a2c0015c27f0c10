// Distribution of a matrix over the processes that factorise it, and the steps of the factorisation.
#pragma once

#include <cstdint>
#include <vector>

namespace lu {

/// One dimension of the block-cyclic distribution: global indices in blocks over `count` processes.
struct Cyclic {
    std::int64_t block;
    int count;
    int mine;  ///< this process

    int owner(std::int64_t global) const { return static_cast<int>(global / block % count); }
    bool owns(std::int64_t global) const { return owner(global) == mine; }
    /// Number of global indices below `end` that process `mine` owns; also the local index of its first one
    /// that is not below `end`.
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

/// N rows and some columns in blocks of NB x NB, distributed cyclically over a grid of P x Q processes.
struct Distribution {
    /// @param n rows @param all_columns N, or N + 1 with a right-hand side @param nb block @param p, q rows
    /// and columns of the grid @param row, column this process
    Distribution(std::int64_t n, std::int64_t all_columns, std::int64_t nb, int p, int q, int row, int column)
        : n(n),
          nb(nb),
          rows{nb, p, row},
          columns{nb, q, column},
          local_rows(rows.below(n)),
          local_columns(columns.below(all_columns)) {}

    std::int64_t n;
    std::int64_t nb;
    Cyclic rows;
    Cyclic columns;
    std::int64_t local_rows;
    std::int64_t local_columns;

    bool one_row() const { return rows.count == 1; }
};

/// Columns [begin, begin + width) are eliminated together; no step crosses a block boundary.
struct Step {
    std::int64_t begin;
    std::int64_t width;
    std::int64_t end() const { return begin + width; }
};

/// Local columns [begin, end) of this process.
struct Range {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t size() const { return end - begin; }
    bool empty() const { return end <= begin; }
};

/// Steps as wide as a block while at least `taper` widths of the matrix remain, then half as wide and so on,
/// but not below `minimum`. Towards the end the updates are too short to hide a wide panel.
std::vector<Step> plan_steps(std::int64_t n, std::int64_t nb, std::int64_t taper, std::int64_t minimum);

}  // namespace lu
