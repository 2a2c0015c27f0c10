// A matrix as tasks of about equal length for the warps of a GPU. Rows are sorted by their length over the
// whole matrix and sliced (SELL with sorting, SELL-C-sigma), and long rows are cut into pieces. The columns
// with the most entries are renumbered, so that a kernel can keep their part of x in shared memory.
#pragma once

#include <vector>

#include "lib/sparse/csr.h"
#include "programs/spmv/tile.h"

namespace spmv {

/// A unit of work of a warp: a slice of up to 32 rows, in which place 32 i + l is entry i of the row of lane
/// l; a piece of a long row, which all lanes share; or rows without entries.
struct Task {
    unsigned first;  ///< place
    int places;
    int rows;   ///< slice: number of rows; piece: the row, or -1 - the place of its partial sum
    int slice;  ///< position of the rows of a slice in the list of rows; -1: a piece
};

constexpr int task_lanes = 32;
/// Tasks begin at multiples of this many places: 32 bytes of columns.
constexpr int task_alignment = 8;
/// Longer rows are cut into pieces of up to this many entries.
constexpr int longest_piece = 1024;
/// Rows without entries in a task.
constexpr int empty_rows_a_task = 512;

/// The distribution of the rows.
struct Tasks {
    std::vector<Task> list;        ///< the longest first
    std::vector<int> rows;         ///< of the slices, by length
    std::vector<int> piece_entry;  ///< by task: the entry at which a piece begins
    std::vector<SplitRow> split;   ///< rows in several pieces
    int partial_sums = 0;
    std::uint64_t places = 0;
};

/// @param longest_in_slice rows with more entries become pieces
Tasks make_tasks(const sparse::Csr& matrix, int longest_in_slice);

/// The columns with the largest numbers of entries.
struct BusyColumns {
    std::vector<int> columns;  ///< ascending, at most the requested number
    double share = 0;          ///< of all entries
};
BusyColumns busiest_columns(const sparse::Csr& matrix, int maximum);

/// Places of tasks. A column below 0 is busy column -1 - column; number busy.size() means none (value 0).
template <typename T>
struct Places {
    sparse::Buffer<int> column;
    sparse::Buffer<T> value;
};

template <typename T>
Places<T> fill_places(const sparse::Csr& matrix, const Tasks& tasks, const std::vector<int>& busy) {
    std::vector<int> code(static_cast<std::size_t>(matrix.columns));
    for (int c = 0; c < matrix.columns; ++c) code[static_cast<std::size_t>(c)] = c;
    for (std::size_t i = 0; i < busy.size(); ++i) {
        code[static_cast<std::size_t>(busy[i])] = -1 - static_cast<int>(i);
    }
    const int none = -1 - static_cast<int>(busy.size());
    Places<T> places;
    places.column = sparse::Buffer<int>(tasks.places);
    places.value = sparse::Buffer<T>(tasks.places);
    const auto put = [&](std::size_t place, int entry) {
        const auto j = static_cast<std::size_t>(entry);
        places.column[place] = entry < 0 ? none : code[static_cast<std::size_t>(matrix.column[j])];
        places.value[place] = entry < 0 ? T(0) : static_cast<T>(matrix.value[j]);
    };
    const auto count = static_cast<std::int64_t>(tasks.list.size());
#pragma omp parallel for schedule(dynamic, 256)
    for (std::int64_t t = 0; t < count; ++t) {
        const Task& task = tasks.list[static_cast<std::size_t>(t)];
        const int filled = (task.places + task_alignment - 1) / task_alignment * task_alignment;
        for (int p = 0; p < filled; ++p) {
            int entry = -1;
            if (task.slice < 0) {
                if (p < task.places) entry = tasks.piece_entry[static_cast<std::size_t>(t)] + p;
            } else if (p % task_lanes < task.rows) {
                const auto row = static_cast<std::size_t>(
                    tasks.rows[static_cast<std::size_t>(task.slice + p % task_lanes)]);
                const int at = matrix.offsets[row] + p / task_lanes;
                if (at < matrix.offsets[row + 1]) entry = at;
            }
            put(task.first + static_cast<std::size_t>(p), entry);
        }
    }
    return places;
}

}  // namespace spmv
