// The problem of one rank in a Runner's memory, in the given order.
#pragma once

#include <vector>

#include "programs/hpcg/rows.h"

namespace hpcg {

/// One level: its matrix, its exchange, and its connection to the next coarser one.
template <typename Runner>
struct ProblemLevel {
    template <typename T>
    using Array = typename Runner::template Array<T>;

    Rows rows;
    Halo halo;
    Array<int> columns;
    Array<double> values;
    Array<unsigned char> lengths;
    Array<double> diagonal;
    Array<std::int64_t> ids;  ///< on the finest level
    Array<int> rows_to_send;
    Array<int> fine_of_coarse;  ///< empty on the coarsest level
    int coarse_rows = 0;
};

template <typename Runner>
struct Problem {
    std::vector<ProblemLevel<Runner>> levels;
    std::vector<Box> boxes;
};

template <typename Runner>
ProblemLevel<Runner> make_level(Runner& runner, int rows, const Halo& halo, bool with_ids) {
    ProblemLevel<Runner> level;
    const auto count = static_cast<std::size_t>(rows);
    level.halo = halo;
    level.columns = runner.template make<int>(count * max_entries_of_row, false);
    level.values = runner.template make<double>(count * max_entries_of_row, false);
    level.lengths = runner.template make<unsigned char>(count);
    level.diagonal = runner.template make<double>(count);
    if (with_ids) level.ids = runner.template make<std::int64_t>(count);
    level.rows.rows = rows;
    level.rows.row_stride = Runner::rows_side_by_side ? 1 : max_entries_of_row;
    level.rows.slot_stride = Runner::rows_side_by_side ? rows : 1;
    level.rows.columns = level.columns.data();
    level.rows.values = level.values.data();
    level.rows.lengths = level.lengths.data();
    return level;
}

template <typename Runner>
Problem<Runner> generate(Runner& runner, const std::vector<Part>& parts) {
    Problem<Runner> problem;
    for (std::size_t l = 0; l < parts.size(); ++l) {
        const Box& box = parts[l].box;
        problem.boxes.push_back(box);
        problem.levels.push_back(make_level(runner, box.rows(), parts[l].halo, l == 0));
        ProblemLevel<Runner>& level = problem.levels.back();
        runner.each(box.rows(), Generate{box, level.rows, level.diagonal.data(), level.ids.data()});
        level.rows_to_send = runner.upload(parts[l].halo.rows_to_send);
        if (l + 1 == parts.size()) continue;
        const Box& coarse = parts[l + 1].box;
        level.coarse_rows = coarse.rows();
        level.fine_of_coarse = runner.template make<int>(static_cast<std::size_t>(coarse.rows()));
        runner.each(coarse.rows(), GenerateCoarse{box, coarse, level.fine_of_coarse.data()});
    }
    runner.synchronize();
    return problem;
}

/// The same equations with rows and columns of every level in a random order from a seed.
template <typename Runner>
Problem<Runner> shuffled(Runner& runner, const Problem<Runner>& from, std::uint64_t seed) {
    Problem<Runner> problem;
    problem.boxes = from.boxes;
    const auto shuffle_of = [&](std::size_t l) {
        return Shuffle::of(from.levels[l].rows.rows, seed + 1000 * l);
    };
    for (std::size_t l = 0; l < from.levels.size(); ++l) {
        const ProblemLevel<Runner>& old = from.levels[l];
        problem.levels.push_back(make_level(runner, old.rows.rows, old.halo, l == 0));
        ProblemLevel<Runner>& level = problem.levels.back();
        runner.each(old.rows.rows,
                    ShuffleRows{old.rows, level.rows, old.diagonal.data(), level.diagonal.data(),
                                old.ids.data(), level.ids.data(), shuffle_of(l)});
        level.rows_to_send = runner.template make<int>(static_cast<std::size_t>(old.halo.points));
        runner.each(old.halo.points,
                    ShuffleList{old.rows_to_send.data(), level.rows_to_send.data(), shuffle_of(l)});
        level.coarse_rows = old.coarse_rows;
        if (old.coarse_rows == 0) continue;
        level.fine_of_coarse = runner.template make<int>(static_cast<std::size_t>(old.coarse_rows));
        runner.each(old.coarse_rows, ShuffleCoarse{old.fine_of_coarse.data(), level.fine_of_coarse.data(),
                                                   shuffle_of(l), shuffle_of(l + 1)});
    }
    runner.synchronize();
    return problem;
}

/// Numbers from 1 to 2 by a seed and global row number: the same for every order of the rows.
struct RandomOfRow {
    const int* row_of;  ///< null: position i is row i; rows below 0 get 0
    const std::int64_t* ids;
    std::uint64_t seed;
    double* to;
    SPARSE_EVERYWHERE void operator()(int i) const {
        const int row = row_of == nullptr ? i : row_of[i];
        to[i] =
            row < 0
                ? 0
                : 1 + sparse::unit_real(sparse::mixed_bits(seed, static_cast<std::uint64_t>(ids[row]), 0));
    }
};

/// The right-hand side whose solution is 1 everywhere: the sum of each row.
struct RightHandSide {
    Rows rows;
    const int* row_of;
    double* to;
    SPARSE_EVERYWHERE void operator()(int i) const {
        const int row = row_of == nullptr ? i : row_of[i];
        double sum = 0;
        if (row >= 0) {
            for (int k = 0; k < rows.lengths[row]; ++k) sum += rows.values[rows.at(row, k)];
        }
        to[i] = sum;
    }
};

/// HPCG's spectral test: the diagonal and b times 10^6, in the first nine rows of the whole problem
/// additionally times 2 to 10.
struct Exaggerate {
    const int* row_of;
    const std::int64_t* ids;
    double* diagonal;
    double* b;
    SPARSE_EVERYWHERE void operator()(int i) const {
        const int row = row_of == nullptr ? i : row_of[i];
        if (row < 0) return;
        const double scale = ids[row] < 9 ? static_cast<double>(ids[row] + 2) * 1e6 : 1e6;
        diagonal[i] *= scale;
        b[i] *= scale;
    }
};

/// The original diagonal.
struct GivenDiagonal {
    const int* row_of;
    const double* given;
    double* diagonal;
    SPARSE_EVERYWHERE void operator()(int i) const {
        const int row = row_of == nullptr ? i : row_of[i];
        if (row >= 0) diagonal[i] = given[row];
    }
};

/// The distance of x from 1 in a row; 0 if there is no row.
struct ErrorOfRow {
    const int* row_of;
    const double* x;
    SPARSE_EVERYWHERE double operator()(int i) const {
        if (row_of != nullptr && row_of[i] < 0) return 0;
        const double error = x[i] - 1;
        return error < 0 ? -error : error;
    }
};

/// Changes the first entry from `from` on that is not padding.
struct SpoilEntry {
    double* values;
    std::int64_t from;
    std::int64_t end;
    SPARSE_EVERYWHERE void operator()(int) const {
        for (std::int64_t at = from; at < end; ++at) {
            if (values[at] == 0) continue;
            values[at] *= 1 + 1.0 / 4096;
            return;
        }
    }
};

struct SpoilDouble {
    double* value;
    SPARSE_EVERYWHERE void operator()(int) const { *value *= 1 + 1.0 / 4096; }
};

}  // namespace hpcg
