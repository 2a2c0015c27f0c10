#include "programs/spmv/sorted.h"

#include <algorithm>

namespace spmv {

namespace {

int length_of(const sparse::Csr& matrix, int row) {
    const auto r = static_cast<std::size_t>(row);
    return matrix.offsets[r + 1] - matrix.offsets[r];
}

/// Pieces of about equal length.
void add_pieces(const sparse::Csr& matrix, int row, Tasks& tasks) {
    const std::int64_t length = length_of(matrix, row);
    const int begin = matrix.offsets[static_cast<std::size_t>(row)];
    const auto pieces = static_cast<int>((length + longest_piece - 1) / longest_piece);
    if (pieces > 1) {
        tasks.split.push_back({row, tasks.partial_sums, tasks.partial_sums + pieces});
    }
    for (int p = 0; p < pieces; ++p) {
        const auto from = static_cast<int>(length * p / pieces);
        const auto to = static_cast<int>(length * (p + 1) / pieces);
        const int target = pieces > 1 ? -1 - tasks.partial_sums++ : row;
        tasks.list.push_back({0, to - from, target, -1});
        tasks.piece_entry.push_back(begin + from);
    }
}

/// The rows of up to `longest` entries, the longest first, rows of one length in their order.
std::vector<int> rows_by_length(const sparse::Csr& matrix, int longest) {
    std::vector<int> first(static_cast<std::size_t>(longest) + 2, 0);  // by length, from the longest
    const auto place_of = [longest](int length) { return static_cast<std::size_t>(longest - length); };
    for (int row = 0; row < matrix.rows; ++row) {
        const int length = length_of(matrix, row);
        if (length <= longest) ++first[place_of(length) + 1];
    }
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<int> rows(static_cast<std::size_t>(first.back()));
    for (int row = 0; row < matrix.rows; ++row) {
        const int length = length_of(matrix, row);
        if (length <= longest) rows[static_cast<std::size_t>(first[place_of(length)]++)] = row;
    }
    return rows;
}

}  // namespace

Tasks make_tasks(const sparse::Csr& matrix, int longest_in_slice) {
    Tasks tasks;
    for (int row = 0; row < matrix.rows; ++row) {
        if (length_of(matrix, row) > longest_in_slice) add_pieces(matrix, row, tasks);
    }
    tasks.rows = rows_by_length(matrix, longest_in_slice);
    const int listed = static_cast<int>(tasks.rows.size());
    for (int at = 0; at < listed;) {
        const int width = length_of(matrix, tasks.rows[static_cast<std::size_t>(at)]);
        const int rows = std::min(width > 0 ? task_lanes : empty_rows_a_task, listed - at);
        tasks.list.push_back({0, width * task_lanes, rows, at});
        tasks.piece_entry.push_back(-1);
        at += rows;
    }
    // Sorts the tasks by length, with the pieces of each.
    std::vector<int> order(tasks.list.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return tasks.list[static_cast<std::size_t>(a)].places >
               tasks.list[static_cast<std::size_t>(b)].places;
    });
    std::vector<Task> list;
    std::vector<int> entries;
    list.reserve(order.size());
    entries.reserve(order.size());
    for (int i : order) {
        Task task = tasks.list[static_cast<std::size_t>(i)];
        task.first = static_cast<unsigned>(tasks.places);
        tasks.places +=
            static_cast<std::uint64_t>((task.places + task_alignment - 1) / task_alignment * task_alignment);
        list.push_back(task);
        entries.push_back(tasks.piece_entry[static_cast<std::size_t>(i)]);
    }
    tasks.list.swap(list);
    tasks.piece_entry.swap(entries);
    return tasks;
}

BusyColumns busiest_columns(const sparse::Csr& matrix, int maximum) {
    const auto columns = static_cast<std::size_t>(matrix.columns);
    std::vector<int> entries_of(columns, 0);
    for (std::size_t j = 0; j < static_cast<std::size_t>(matrix.entries()); ++j) {
        ++entries_of[static_cast<std::size_t>(matrix.column[j])];
    }
    BusyColumns busy;
    busy.columns.resize(columns);
    for (std::size_t c = 0; c < columns; ++c) busy.columns[c] = static_cast<int>(c);
    if (static_cast<std::size_t>(maximum) < columns) {
        std::nth_element(busy.columns.begin(), busy.columns.begin() + maximum, busy.columns.end(),
                         [&](int a, int b) {
                             const int of_a = entries_of[static_cast<std::size_t>(a)];
                             const int of_b = entries_of[static_cast<std::size_t>(b)];
                             return of_a != of_b ? of_a > of_b : a < b;
                         });
        busy.columns.resize(static_cast<std::size_t>(maximum));
        std::sort(busy.columns.begin(), busy.columns.end());
    }
    std::int64_t entries = 0;
    for (int c : busy.columns) entries += entries_of[static_cast<std::size_t>(c)];
    if (matrix.entries() > 0) busy.share = static_cast<double>(entries) / matrix.entries();
    return busy;
}

}  // namespace spmv
