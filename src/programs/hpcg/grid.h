// The problem's grid: its distribution over ranks, and the exchange at their boundaries.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/sparse/portable.h"

namespace hpcg {

constexpr int levels = 4;       ///< of the multigrid, the finest included
constexpr int directions = 27;  ///< (dx + 1) + 3 (dy + 1) + 9 (dz + 1); 13 is the rank itself

/// Number of ranks along x, y and z: of all decompositions, the one with the least surface between ranks.
std::array<int, 3> shape_of_ranks(int ranks, const std::array<int, 3>& local);

/// One rank's part of the grid of one level, as kernels use it.
struct Box {
    int n[3];                    ///< local points along x, y, z
    std::int64_t first[3];       ///< global position of the first one
    std::int64_t all[3];         ///< global points
    int halo_begin[directions];  ///< position of that neighbour's points in the halo; -1 without
                                 ///< neighbour

    SPARSE_EVERYWHERE int rows() const { return n[0] * n[1] * n[2]; }
    SPARSE_EVERYWHERE int row(int x, int y, int z) const { return (z * n[1] + y) * n[0] + x; }
    SPARSE_EVERYWHERE std::int64_t id(int x, int y, int z) const {
        return ((first[2] + z) * all[1] + first[1] + y) * all[0] + first[0] + x;
    }
};

/// The points sent to and received from another rank, in equal numbers.
struct Neighbour {
    int rank;
    int begin;  ///< in the halo, and in the send list
    int count;
};

struct Halo {
    std::vector<Neighbour> neighbours;  ///< in the order of their directions
    std::vector<int> rows_to_send;      ///< by neighbour
    int points = 0;                     ///< received, and sent
};

/// Rank `rank`'s part of one level.
struct Part {
    Box box;
    Halo halo;
};

/// @param local points of each rank at the finest level, divisible by 8
std::vector<Part> make_parts(int rank, const std::array<int, 3>& ranks, const std::array<int, 3>& local);

/// Rows and entries of the whole grid of a level.
struct Totals {
    double rows;
    double entries;
};
Totals totals_of(const Box& box);

}  // namespace hpcg
