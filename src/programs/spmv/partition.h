// Distribution of the rows of a matrix over the blocks and warps of the CSR kernels.
#pragma once

#include <vector>

#include "lib/sparse/csr.h"
#include "programs/spmv/tile.h"

namespace spmv {

/// Rows cut into tiles of at most `max_rows` rows and `max_entries` entries; longer rows are split into
/// pieces.
struct Tiling {
    std::vector<Tile> tiles;
    std::vector<SplitRow> split;
    int pieces = 0;
    int largest = 0;  ///< entries of the largest tile
};
Tiling tile_rows(const sparse::Csr& matrix, int max_rows, int max_entries);

/// Rows listed by class of length, long ones first, rows beyond longest_whole_row as pieces.
struct Binning {
    RowClasses classes;
    std::vector<int> rows;
    std::vector<Tile> pieces;
    std::vector<SplitRow> split;
};
Binning bin_rows(const sparse::Csr& matrix);

}  // namespace spmv
