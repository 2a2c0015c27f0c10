// The parts of a matrix for blocks and warps of the CSR kernels.
#pragma once

namespace spmv {

/// Whole rows, or a piece of one row that is too long for one block or warp.
struct Tile {
    int first_row;
    int last_row;  ///< one past the last; for a piece: -1 - the place of its partial sum
    int first_entry;
    int last_entry;  ///< one behind the last
};

/// A row whose sum is in pieces [first_piece, last_piece).
struct SplitRow {
    int row;
    int first_piece;
    int last_piece;
};

/// Classes of rows by their length, for equal work of all lanes of a warp. Class c has rows of up to
/// entries_a_lane x 2^c entries, which 2^c lanes share. The last class has all longer rows, one warp each, up
/// to longest_whole_row; beyond that rows are split into pieces.
constexpr int classes = 6;
constexpr int entries_a_lane = 4;
constexpr int longest_whole_row = 1024;

struct RowClasses {
    int first_warp[classes + 2];  ///< of the grid: pieces, then class 5 to class 0, then the end
    int first_row[classes + 1];   ///< in the list of rows: class 5 to class 0, then the end
};

}  // namespace spmv
