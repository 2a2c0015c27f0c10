// The matrix in the given order: rows of at most 27 entries, and the functors that generate it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/sparse/colouring.h"
#include "lib/sparse/portable.h"
#include "lib/sparse/random.h"
#include "programs/hpcg/grid.h"

namespace hpcg {

constexpr int max_entries_of_row = 27;

/// Rows of the matrix; also the graph for orderings. Independent of any grid: any matrix
/// with a symmetric pattern is possible. Columns from `rows` on are those of other ranks.
struct Rows {
    int rows;
    std::int64_t row_stride;   ///< between the same entries of neighbouring rows
    std::int64_t slot_stride;  ///< between neighbouring entries of a row
    int* columns;
    double* values;
    unsigned char* lengths;

    SPARSE_EVERYWHERE std::int64_t at(int row, int k) const { return row * row_stride + k * slot_stride; }
    SPARSE_EVERYWHERE int degree(int row) const { return lengths[row]; }
    SPARSE_EVERYWHERE int neighbour(int row, int k) const { return columns[at(row, k)]; }
};

/// The 27-point problem of HPCG: 26 on the diagonal, -1 for every neighbour in the grid.
struct Generate {
    Box box;
    Rows rows;
    double* diagonal;
    std::int64_t* ids;  ///< global number of each row; may be null

    SPARSE_EVERYWHERE void operator()(int row) const {
        const int x = row % box.n[0];
        const int y = row / box.n[0] % box.n[1];
        const int z = row / box.n[0] / box.n[1];
        int count = 0;
        for (int dz = -1; dz <= 1; ++dz) {
            for (int dy = -1; dy <= 1; ++dy) {
                for (int dx = -1; dx <= 1; ++dx) {
                    const int column = column_of(x + dx, y + dy, z + dz);
                    if (column < 0) continue;
                    const std::int64_t at = rows.at(row, count++);
                    rows.columns[at] = column;
                    rows.values[at] = column == row ? 26.0 : -1.0;
                }
            }
        }
        rows.lengths[row] = static_cast<unsigned char>(count);
        diagonal[row] = 26.0;
        if (ids != nullptr) ids[row] = box.id(x, y, z);
    }

    /// -1 outside the whole grid.
    SPARSE_EVERYWHERE int column_of(int x, int y, int z) const {
        const int point[3] = {x, y, z};
        int direction = 0;
        int weight = 1;
        int place = 0;
        int extent = 1;
        for (int axis = 0; axis < 3; ++axis) {
            const std::int64_t whole = box.first[axis] + point[axis];
            if (whole < 0 || whole >= box.all[axis]) return -1;
            const int side = point[axis] < 0 ? 0 : point[axis] >= box.n[axis] ? 2 : 1;
            direction += side * weight;
            weight *= 3;
            if (side == 1) {
                place += point[axis] * extent;
                extent *= box.n[axis];
            }
        }
        return direction == directions / 2 ? box.row(x, y, z)
                                           : box.rows() + box.halo_begin[direction] + place;
    }
};

/// For every row of the coarser level the row of this level at the same point.
struct GenerateCoarse {
    Box fine;
    Box coarse;
    int* fine_of_coarse;

    SPARSE_EVERYWHERE void operator()(int row) const {
        const int x = row % coarse.n[0];
        const int y = row / coarse.n[0] % coarse.n[1];
        const int z = row / coarse.n[0] / coarse.n[1];
        fine_of_coarse[row] = fine.row(2 * x, 2 * y, 2 * z);
    }
};

/// A permutation of [0, count) by a seed: four rounds of a Feistel network over the next power of 4, repeated
/// until the number is below `count` (cycle walking). Threads evaluate it independently; no table is needed.
struct Shuffle {
    int count;
    int half_bits;
    std::uint64_t seed;

    static Shuffle of(int count, std::uint64_t seed) {
        Shuffle shuffle = {count, 1, seed};
        while ((std::int64_t{1} << (2 * shuffle.half_bits)) < count) ++shuffle.half_bits;
        return shuffle;
    }
    SPARSE_EVERYWHERE std::uint32_t mixed(std::uint32_t half, int round) const {
        return static_cast<std::uint32_t>(sparse::mixed_bits(seed, half, static_cast<std::uint64_t>(round)) >>
                                          32);
    }
    SPARSE_EVERYWHERE int operator()(int place) const {
        const std::uint32_t mask = (1u << half_bits) - 1;
        std::uint32_t number = static_cast<std::uint32_t>(place);
        do {
            std::uint32_t left = number >> half_bits;
            std::uint32_t right = number & mask;
            for (int round = 0; round < 4; ++round) {
                const std::uint32_t next = left ^ (mixed(right, round) & mask);
                left = right;
                right = next;
            }
            number = left << half_bits | right;
        } while (number >= static_cast<std::uint32_t>(count));
        return static_cast<int>(number);
    }
};

/// Copies a matrix into a shuffled numbering of its rows and columns.
struct ShuffleRows {
    Rows from;
    Rows to;
    const double* from_diagonal;
    double* to_diagonal;
    const std::int64_t* from_ids;  ///< may be null, as the other
    std::int64_t* to_ids;
    Shuffle shuffle;

    SPARSE_EVERYWHERE void operator()(int row) const {
        const int there = shuffle(row);
        const int length = from.lengths[row];
        for (int k = 0; k < length; ++k) {
            const int column = from.columns[from.at(row, k)];
            const std::int64_t at = to.at(there, k);
            to.columns[at] = column < from.rows ? shuffle(column) : column;
            to.values[at] = from.values[from.at(row, k)];
        }
        to.lengths[there] = static_cast<unsigned char>(length);
        to_diagonal[there] = from_diagonal[row];
        if (from_ids != nullptr) to_ids[there] = from_ids[row];
    }
};

struct ShuffleCoarse {
    const int* from;
    int* to;
    Shuffle fine;
    Shuffle coarse;
    SPARSE_EVERYWHERE void operator()(int row) const { to[coarse(row)] = fine(from[row]); }
};

struct ShuffleList {
    const int* from;
    int* to;
    Shuffle shuffle;
    SPARSE_EVERYWHERE void operator()(int place) const { to[place] = shuffle(from[place]); }
};

}  // namespace hpcg
