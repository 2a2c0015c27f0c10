#include "programs/hpcg/grid.h"

namespace hpcg {

namespace {

std::array<int, 3> offsets_of(int direction) {
    return {direction % 3 - 1, direction / 3 % 3 - 1, direction / 9 - 1};
}

/// Points of the boundary layer in a direction, x fastest.
template <typename Visit>
void visit_layer(const Box& box, const std::array<int, 3>& to, const Visit& visit) {
    int begin[3];
    int end[3];
    for (std::size_t axis = 0; axis < 3; ++axis) {
        begin[axis] = to[axis] > 0 ? box.n[axis] - 1 : 0;
        end[axis] = to[axis] < 0 ? 1 : box.n[axis];
    }
    for (int z = begin[2]; z < end[2]; ++z) {
        for (int y = begin[1]; y < end[1]; ++y) {
            for (int x = begin[0]; x < end[0]; ++x) visit(box.row(x, y, z));
        }
    }
}

Part make_part(int rank, const std::array<int, 3>& ranks, const std::array<int, 3>& local, int level) {
    const std::array<int, 3> place = {rank % ranks[0], rank / ranks[0] % ranks[1],
                                      rank / ranks[0] / ranks[1]};
    Part part;
    for (std::size_t axis = 0; axis < 3; ++axis) {
        part.box.n[axis] = local[axis] >> level;
        part.box.first[axis] = std::int64_t{place[axis]} * part.box.n[axis];
        part.box.all[axis] = std::int64_t{ranks[axis]} * part.box.n[axis];
    }
    for (int direction = 0; direction < directions; ++direction) {
        part.box.halo_begin[direction] = -1;
        const std::array<int, 3> to = offsets_of(direction);
        std::array<int, 3> other = place;
        bool there = direction != directions / 2;
        for (std::size_t axis = 0; axis < 3; ++axis) {
            other[axis] += to[axis];
            there = there && other[axis] >= 0 && other[axis] < ranks[axis];
        }
        if (!there) continue;
        part.box.halo_begin[direction] = part.halo.points;
        Neighbour neighbour = {(other[2] * ranks[1] + other[1]) * ranks[0] + other[0], part.halo.points, 0};
        visit_layer(part.box, to, [&](int row) {
            part.halo.rows_to_send.push_back(row);
            ++neighbour.count;
        });
        part.halo.points += neighbour.count;
        part.halo.neighbours.push_back(neighbour);
    }
    return part;
}

}  // namespace

std::array<int, 3> shape_of_ranks(int ranks, const std::array<int, 3>& local) {
    std::array<int, 3> best = {ranks, 1, 1};
    double minimum = -1;
    for (int x = 1; x <= ranks; ++x) {
        if (ranks % x != 0) continue;
        for (int y = 1; y <= ranks / x; ++y) {
            if (ranks / x % y != 0) continue;
            const int z = ranks / x / y;
            const double sides[3] = {static_cast<double>(x) * local[0], static_cast<double>(y) * local[1],
                                     static_cast<double>(z) * local[2]};
            const double surface = sides[0] * sides[1] + sides[1] * sides[2] + sides[2] * sides[0];
            if (minimum >= 0 && surface >= minimum) continue;
            minimum = surface;
            best = {x, y, z};
        }
    }
    return best;
}

std::vector<Part> make_parts(int rank, const std::array<int, 3>& ranks, const std::array<int, 3>& local) {
    std::vector<Part> parts;
    for (int level = 0; level < levels; ++level) parts.push_back(make_part(rank, ranks, local, level));
    return parts;
}

Totals totals_of(const Box& box) {
    Totals totals = {1, 1};
    for (std::int64_t all : box.all) {
        totals.rows *= static_cast<double>(all);
        totals.entries *= 3.0 * static_cast<double>(all) - 2;  // each point and its neighbours along one axis
    }
    return totals;
}

}  // namespace hpcg
