// Orderings from the graph of a matrix: dependent rows in level sets, and a greedy colouring whose result is
// independent of the number of threads and the same on the host and on a GPU.
//
// A Graph is a value with the members rows, degree(r) and neighbour(r, k); neighbours outside [0, rows) are
// ignored. A Runner runs functors: Array<T>, each(count, functor), each_counted(number, count, functor),
// fetch(array, place), clear(array).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "lib/sparse/portable.h"

namespace sparse {

typedef unsigned char Colour;
/// A row without a colour.
constexpr Colour no_colour = 255;
/// A row excluded from the others: it gets the last colour.
constexpr Colour apart_colour = 254;
constexpr int max_colours = 254;

/// Number of neighbours that are loaded together; on a GPU a row is limited by its chain of loads.
constexpr int neighbours_at_once = 9;

/// Fills `others` with the neighbours from `begin` on that are rows; the row itself stands for none.
template <typename Graph>
SPARSE_EVERYWHERE inline void load_neighbours(const Graph& graph, int row, int begin, int degree,
                                              int (&others)[neighbours_at_once]) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int k = 0; k < neighbours_at_once; ++k) {
        const int other = begin + k < degree ? graph.neighbour(row, begin + k) : row;
        others[k] = other >= 0 && other < graph.rows ? other : row;
    }
}

/// The lowest colour that no neighbour has.
template <typename Graph>
SPARSE_EVERYWHERE inline int first_fit(const Graph& graph, int row, const Colour* colours) {
    const int degree = graph.degree(row);
    for (int base = 0; base < 256; base += 64) {
        unsigned long long taken = 0;
        for (int begin = 0; begin < degree; begin += neighbours_at_once) {
            int others[neighbours_at_once];
            int found[neighbours_at_once];
            load_neighbours(graph, row, begin, degree, others);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
            for (int k = 0; k < neighbours_at_once; ++k) found[k] = colours[others[k]];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
            for (int k = 0; k < neighbours_at_once; ++k) {
                const int colour = found[k] - base;
                if (others[k] != row && found[k] < apart_colour && colour >= 0 && colour < 64)
                    taken |= 1ull << colour;
            }
        }
        if (taken == ~0ull) continue;
        int colour = 0;
        while ((taken >> colour & 1) != 0) ++colour;
        return base + colour;
    }
    return max_colours;
}

namespace detail {

/// Counts the rows on which each row depends: its neighbours with a lower number. Those without dependencies
/// are the first level set.
template <typename Graph>
struct CountWaiting {
    Graph graph;
    const Colour* colours;  ///< rows with an initial colour are excluded; may be null
    int* waiting;
    int* order;
    int* set_size;

    SPARSE_EVERYWHERE bool left_out(int row) const { return colours != nullptr && colours[row] != no_colour; }
    SPARSE_EVERYWHERE void operator()(int row) const {
        if (left_out(row)) return;
        int count = 0;
        const int degree = graph.degree(row);
        for (int k = 0; k < degree; ++k) {
            const int other = graph.neighbour(row, k);
            if (other >= 0 && other < row && !left_out(other)) ++count;
        }
        waiting[row] = count;
        if (count == 0) order[fetch_add(set_size, 1)] = row;
    }
};

/// One level set: its rows get a colour and release the rows that depend on them.
template <typename Graph>
struct PeelFront {
    Graph graph;
    Colour* colours;
    bool colouring;
    int* waiting;
    int* order;
    int* set_sizes;   ///< of this level set, then of the next one
    int* set_begins;  ///< likewise

    SPARSE_EVERYWHERE void operator()(int place) const {
        if (place == 0) set_begins[1] = set_begins[0] + set_sizes[0];
        const int row = order[set_begins[0] + place];
        if (colouring) colours[row] = static_cast<Colour>(first_fit(graph, row, colours));
        const int degree = graph.degree(row);
        int* const next = order + set_begins[0] + set_sizes[0];
        for (int begin = 0; begin < degree; begin += neighbours_at_once) {
            int others[neighbours_at_once];
            int before[neighbours_at_once];
            load_neighbours(graph, row, begin, degree, others);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
            for (int k = 0; k < neighbours_at_once; ++k) {
                // Excluded rows depend on none: their counters are never read.
                before[k] = others[k] > row ? fetch_add(waiting + others[k], -1) : 0;
            }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
            for (int k = 0; k < neighbours_at_once; ++k) {
                if (before[k] == 1) next[fetch_add(set_sizes + 1, 1)] = others[k];
            }
        }
    }
};

}  // namespace detail

/// Rows in level sets: a row comes after all of its neighbours with a lower number, and no two rows of a
/// level set are neighbours. Within a level set the order may differ from run to run.
template <typename Runner>
struct LevelSets {
    typename Runner::template Array<int> order;
    std::vector<int> begins;  ///< of the level sets in `order`, and the end
};

/// Peels the graph; with `colours` each row gets the lowest colour not used by its neighbours in earlier
/// level sets, as in a sequential pass over the rows. Rows with an initial colour keep it.
/// @param colours null, or a colour for each row; those to peel are no_colour
/// @throws std::runtime_error if a row would need more than 254 colours, or the longest chain exceeds
/// 2^20 rows
template <typename Runner, typename Graph>
LevelSets<Runner> peel(Runner& runner, const Graph& graph, Colour* colours, int rows_to_peel) {
    constexpr int batch = 64;
    const int max_sets = (graph.rows < (1 << 20) ? graph.rows : 1 << 20) + batch + 2;
    LevelSets<Runner> level_sets{runner.template make<int>(static_cast<std::size_t>(graph.rows)), {}};
    auto waiting = runner.template make<int>(static_cast<std::size_t>(graph.rows));
    auto sizes = runner.template make<int>(static_cast<std::size_t>(max_sets));
    auto begins = runner.template make<int>(static_cast<std::size_t>(max_sets));
    runner.each(graph.rows, detail::CountWaiting<Graph>{graph, colours, waiting.data(),
                                                        level_sets.order.data(), sizes.data()});
    const int max_in_set = graph.rows;
    int done = 0;
    for (;;) {
        if (done + batch + 1 >= max_sets && rows_to_peel > 0) {
            throw std::runtime_error("the rows wait for each other in chains longer than 2^20");
        }
        for (int i = 0; i < batch; ++i) {
            runner.each_counted(sizes.data() + done + i, max_in_set,
                                detail::PeelFront<Graph>{graph, colours, colours != nullptr, waiting.data(),
                                                         level_sets.order.data(), sizes.data() + done + i,
                                                         begins.data() + done + i});
        }
        done += batch;
        if (runner.fetch(sizes.data() + done) == 0) break;
    }
    const std::vector<int> all = runner.download(sizes.data(), static_cast<std::size_t>(done) + 1);
    level_sets.begins.push_back(0);
    for (int size : all) {
        if (size == 0) break;
        level_sets.begins.push_back(level_sets.begins.back() + size);
    }
    if (level_sets.begins.back() != rows_to_peel) {
        throw std::runtime_error("the graph could not be peeled: its rows do not name each other");
    }
    return level_sets;
}

namespace detail {

template <typename Runner, typename Graph>
void colour_rows(std::false_type, Runner& runner, const Graph& graph, Colour* colours, int rows_to_colour) {
    peel(runner, graph, colours, rows_to_colour);
}

template <typename Runner, typename Graph>
void colour_rows(std::true_type, Runner&, const Graph& graph, Colour* colours, int) {
    for (int row = 0; row < graph.rows; ++row) {
        if (colours[row] == no_colour) colours[row] = static_cast<Colour>(first_fit(graph, row, colours));
    }
}

}  // namespace detail

/// Greedy colouring in the order of the row numbers. A Runner with one_by_one processes them in turn; others
/// peel, with the same result.
/// @param colours of each row; rows_to_colour of them are no_colour, the others keep theirs
template <typename Runner, typename Graph>
void colour_rows(Runner& runner, const Graph& graph, Colour* colours, int rows_to_colour) {
    detail::colour_rows(std::integral_constant<bool, Runner::one_by_one>(), runner, graph, colours,
                        rows_to_colour);
}

}  // namespace sparse
