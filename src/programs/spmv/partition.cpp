#include "programs/spmv/partition.h"

#include <algorithm>

namespace spmv {

namespace {

int begin_of(const sparse::Csr& matrix, int row) {
    return matrix.offsets[static_cast<std::size_t>(row)];
}

/// Adds the pieces of a row of at most `length` entries each.
void split_row(const sparse::Csr& matrix, int row, int length, int& pieces, std::vector<Tile>& tiles,
               std::vector<SplitRow>& split) {
    const int end = begin_of(matrix, row + 1);
    SplitRow whole = {row, pieces, pieces};
    for (int first = begin_of(matrix, row); first < end;) {
        const int last = end - first > length ? first + length : end;
        tiles.push_back({row, -1 - pieces, first, last});
        ++pieces;
        first = last;
    }
    whole.last_piece = pieces;
    split.push_back(whole);
}

int class_of(int length) {
    int c = 0;
    while (c + 1 < classes && length > entries_a_lane << c) ++c;
    return c;
}

}  // namespace

Tiling tile_rows(const sparse::Csr& matrix, int max_rows, int max_entries) {
    Tiling tiling;
    for (int row = 0; row < matrix.rows;) {
        const int begin = begin_of(matrix, row);
        int last = row;
        while (last < matrix.rows && last - row < max_rows &&
               begin_of(matrix, last + 1) - begin <= max_entries) {
            ++last;
        }
        if (last == row) {
            split_row(matrix, row, max_entries, tiling.pieces, tiling.tiles, tiling.split);
            tiling.largest = max_entries;
            ++row;
            continue;
        }
        const int end = begin_of(matrix, last);
        tiling.tiles.push_back({row, last, begin, end});
        tiling.largest = std::max(tiling.largest, end - begin);
        row = last;
    }
    return tiling;
}

Binning bin_rows(const sparse::Csr& matrix) {
    Binning binning;
    int count[classes] = {};
    int pieces = 0;
    for (int row = 0; row < matrix.rows; ++row) {
        const int length = begin_of(matrix, row + 1) - begin_of(matrix, row);
        if (length > longest_whole_row) {
            split_row(matrix, row, longest_whole_row, pieces, binning.pieces, binning.split);
        } else {
            ++count[class_of(length)];
        }
    }
    RowClasses& list = binning.classes;
    list.first_warp[0] = 0;
    list.first_warp[1] = pieces;
    list.first_row[0] = 0;
    int next[classes];
    for (int place = 0; place < classes; ++place) {
        const int c = classes - 1 - place;
        const int rows_a_warp = 32 >> c;
        next[c] = list.first_row[place];
        list.first_row[place + 1] = list.first_row[place] + count[c];
        list.first_warp[place + 2] = list.first_warp[place + 1] + (count[c] + rows_a_warp - 1) / rows_a_warp;
    }
    binning.rows.resize(static_cast<std::size_t>(list.first_row[classes]));
    for (int row = 0; row < matrix.rows; ++row) {
        const int length = begin_of(matrix, row + 1) - begin_of(matrix, row);
        if (length <= longest_whole_row) {
            binning.rows[static_cast<std::size_t>(next[class_of(length)]++)] = row;
        }
    }
    return binning;
}

}  // namespace spmv
