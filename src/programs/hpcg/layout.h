// The matrix for the optimised solver: rows and columns in the order of their colours, sliced ELL,
// the lower and the upper part separate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/sparse/colouring.h"
#include "programs/hpcg/rows.h"

namespace hpcg {

/// If there are more colours than this, the numbering is irregular.
constexpr int regular_colours = 10;

/// Slices of one colour that a product processes before the next colour.
constexpr int slices_of_share = 64;

/// Rows that one functor counts or places.
constexpr int rows_of_chunk = 256;

struct CountColours {
    const sparse::Colour* colours;
    int rows;
    int chunks;
    int* counts;  ///< by colour, then chunk

    SPARSE_EVERYWHERE void operator()(int chunk) const {
        const int begin = chunk * rows_of_chunk;
        const int end = begin + rows_of_chunk < rows ? begin + rows_of_chunk : rows;
        for (int row = begin; row < end; ++row) {
            ++counts[static_cast<std::int64_t>(colours[row]) * chunks + chunk];
        }
    }
};

/// Gives every row its position; rows of one colour keep their order.
struct PlaceRows {
    const sparse::Colour* colours;
    int rows;
    int chunks;
    int* next;  ///< by colour, then chunk: the next free position
    int* position_of_row;
    int* row_of_position;

    SPARSE_EVERYWHERE void operator()(int chunk) const {
        const int begin = chunk * rows_of_chunk;
        const int end = begin + rows_of_chunk < rows ? begin + rows_of_chunk : rows;
        for (int row = begin; row < end; ++row) {
            const int position = next[static_cast<std::int64_t>(colours[row]) * chunks + chunk]++;
            position_of_row[row] = position;
            row_of_position[position] = row;
        }
    }
};

/// The part to which an entry belongs.
enum class Side { diagonal, lower, coarse, upper };

/// The data required to determine it.
struct Sorting {
    Rows rows;
    const sparse::Colour* colours;
    const unsigned char* is_coarse;  ///< rows that also exist on the coarser level; null on the coarsest

    /// Columns of other ranks count as lower, since their values are known before the first colour.
    SPARSE_EVERYWHERE Side side(int row, int column) const {
        if (column == row) return Side::diagonal;
        if (column >= rows.rows || colours[column] <= colours[row]) return Side::lower;
        return is_coarse != nullptr && is_coarse[column] != 0 ? Side::coarse : Side::upper;
    }
};

/// Entries of one part of each row, for the widths of the slices.
struct CountEntries {
    Sorting sorting;
    const int* row_of_position;
    int height;
    int* lower_width;   ///< by slice
    int* coarse_width;  ///< of upper entries whose column is a coarse point
    int* upper_width;   ///< of the other upper entries
    int* clashes;       ///< entries that join two rows of one colour

    SPARSE_EVERYWHERE void operator()(int position) const {
        const int row = row_of_position[position];
        if (row < 0) return;
        int count[3] = {0, 0, 0};
        int wrong = 0;
        const int length = sorting.rows.degree(row);
        for (int k = 0; k < length; ++k) {
            const int column = sorting.rows.neighbour(row, k);
            const Side side = sorting.side(row, column);
            if (side == Side::diagonal) continue;
            ++count[static_cast<int>(side) - 1];
            if (column < sorting.rows.rows && sorting.colours[column] == sorting.colours[row]) ++wrong;
        }
        const int slice = position / height;
        sparse::raise_to(lower_width + slice, count[0]);
        sparse::raise_to(coarse_width + slice, count[1]);
        sparse::raise_to(upper_width + slice, count[2]);
        if (wrong > 0) sparse::fetch_add(clashes, wrong);
    }
};

/// One part of the matrix as read by kernels: place k of lane l of slice s is at offsets[s] + k * height + l.
struct Slices {
    /// A sum over `width` places of a slice: of value times from[column].
    struct Gather {
        const int* columns;
        const double* values;
        const double* from;
        int width;
    };

    const std::int64_t* offsets;
    const int* columns;
    const double* values;

    static Slices of(const std::int64_t* offsets, const int* columns, const double* values, const int*) {
        return {offsets, columns, values};
    }
    SPARSE_EVERYWHERE Gather gather(std::int64_t begin, int width, const double* from, int) const {
        return {columns + begin, values + begin, from, width};
    }
};

/// Slices with a column of another rank.
struct MarkOuter {
    Rows rows;
    const int* row_of_position;
    int height;
    unsigned char* outer;
    SPARSE_EVERYWHERE void operator()(int position) const {
        const int row = row_of_position[position];
        if (row < 0) return;
        const int length = rows.degree(row);
        for (int k = 0; k < length; ++k) {
            if (rows.neighbour(row, k) >= rows.rows) outer[position / height] = 1;
        }
    }
};

struct FillSlices {
    Sorting sorting;
    const int* row_of_position;
    const int* position_of_row;
    const double* diagonal;  ///< by row
    int height;
    int positions;
    const std::int64_t* lower_offsets;
    int* lower_columns;
    double* lower_values;
    const std::int64_t* upper_offsets;
    const int* coarse_width;
    int* upper_columns;
    double* upper_values;
    double* diagonal_by_position;

    SPARSE_EVERYWHERE void operator()(int position) const {
        const int slice = position / height;
        const int lane = position % height;
        const std::int64_t lower = lower_offsets[slice] + lane;
        const std::int64_t upper = upper_offsets[slice] + lane;
        const int lower_width = static_cast<int>((lower_offsets[slice + 1] - lower_offsets[slice]) / height);
        const int upper_width = static_cast<int>((upper_offsets[slice + 1] - upper_offsets[slice]) / height);
        const int row = row_of_position[position];
        int in_lower = 0;
        int in_coarse = 0;
        int in_upper = coarse_width[slice];
        const int length = row < 0 ? 0 : sorting.rows.degree(row);
        for (int k = 0; k < length; ++k) {
            const int column = sorting.rows.neighbour(row, k);
            const Side side = sorting.side(row, column);
            if (side == Side::diagonal) continue;
            const int to =
                column < sorting.rows.rows ? position_of_row[column] : positions + column - sorting.rows.rows;
            const double value = sorting.rows.values[sorting.rows.at(row, k)];
            if (side == Side::lower) {
                put(lower_columns, lower_values, lower, in_lower++, to, value);
            } else {
                put(upper_columns, upper_values, upper, side == Side::coarse ? in_coarse++ : in_upper++, to,
                    value);
            }
        }
        // A place without an entry has the column of the row itself and the value 0.
        while (in_lower < lower_width) put(lower_columns, lower_values, lower, in_lower++, position, 0);
        while (in_coarse < coarse_width[slice]) {
            put(upper_columns, upper_values, upper, in_coarse++, position, 0);
        }
        while (in_upper < upper_width) put(upper_columns, upper_values, upper, in_upper++, position, 0);
        diagonal_by_position[position] = row < 0 ? 1.0 : diagonal[row];
    }

  private:
    SPARSE_EVERYWHERE void put(int* columns, double* values, std::int64_t first, int k, int column,
                               double value) const {
        const std::int64_t at = first + static_cast<std::int64_t>(k) * height;
        columns[at] = column;
        values[at] = value;
    }
};

struct MarkRows {
    const int* rows;
    unsigned char* marks;
    SPARSE_EVERYWHERE void operator()(int place) const { marks[rows[place]] = 1; }
};

/// Counts the coarse points connected to each row that is not itself a coarse point.
struct CountJoined {
    Rows rows;
    const unsigned char* apart;
    unsigned char* joined;
    int* facts;  ///< [1]: the maximum
    SPARSE_EVERYWHERE void operator()(int row) const {
        int count = 0;
        const int length = rows.degree(row);
        for (int k = 0; k < length; ++k) {
            const int column = rows.neighbour(row, k);
            if (column < rows.rows && apart[column] != 0) ++count;
        }
        joined[row] = static_cast<unsigned char>(apart[row] != 0 ? 0 : count);
        if (apart[row] == 0) sparse::raise_to(facts + 1, count);
    }
};

/// Whether two coarse points are neighbours, or two of the rows with the maximum number of coarse neighbours;
/// such points or rows cannot share one colour.
struct FindJoined {
    Rows rows;
    const unsigned char* apart;
    const unsigned char* joined;
    int maximum;
    int* facts;  ///< [0]: coarse points that are neighbours, [2]: the other rows, [3]: how many of those
                 ///< there are
    SPARSE_EVERYWHERE void operator()(int row) const {
        const bool coarse = apart[row] != 0;
        if (!coarse && joined[row] != maximum) return;
        if (!coarse) sparse::fetch_add(facts + 3, 1);
        const int length = rows.degree(row);
        for (int k = 0; k < length; ++k) {
            const int column = rows.neighbour(row, k);
            if (column == row || column >= rows.rows) continue;
            if (coarse && apart[column] != 0) facts[0] = 1;
            if (!coarse && joined[column] == maximum) facts[2] = 1;
        }
    }
};

/// Coarse points are set apart, the rows connected to `maximum` of them get the first colour, and the others
/// none yet.
struct BeginColours {
    const unsigned char* apart;   ///< may be null
    const unsigned char* joined;  ///< may be null
    int maximum;
    sparse::Colour* colours;
    SPARSE_EVERYWHERE void operator()(int row) const {
        colours[row] = apart != nullptr && apart[row] != 0           ? sparse::apart_colour
                       : joined != nullptr && joined[row] == maximum ? 0
                                                                     : sparse::no_colour;
    }
};

/// Gives the excluded rows the colour after the others'.
struct EndColours {
    sparse::Colour* colours;
    int others;
    SPARSE_EVERYWHERE void operator()(int row) const {
        if (colours[row] == sparse::apart_colour) colours[row] = static_cast<sparse::Colour>(others);
    }
};

struct MaxColour {
    const sparse::Colour* colours;
    int rows;
    int* maximum;  ///< by chunk
    SPARSE_EVERYWHERE void operator()(int chunk) const {
        const int begin = chunk * rows_of_chunk;
        const int end = begin + rows_of_chunk < rows ? begin + rows_of_chunk : rows;
        int found = -1;
        for (int row = begin; row < end; ++row) {
            if (colours[row] < sparse::apart_colour && colours[row] > found) found = colours[row];
        }
        maximum[chunk] = found;
    }
};

/// Counts, for a sample of rows, the entries between two colours.
struct CountCouplings {
    Rows rows;
    const sparse::Colour* colours;
    int colours_all;
    int* counts;  ///< by colour of the row, then of the column
    SPARSE_EVERYWHERE void operator()(int sample) const {
        const int row = static_cast<int>(sparse::mixed_bits(static_cast<std::uint64_t>(sample)) %
                                         static_cast<std::uint64_t>(rows.rows));
        const int length = rows.degree(row);
        for (int k = 0; k < length; ++k) {
            const int column = rows.neighbour(row, k);
            if (column == row || column >= rows.rows) continue;
            sparse::fetch_add(counts + static_cast<int>(colours[row]) * colours_all + colours[column], 1);
        }
    }
};

struct Recolour {
    const int* places;
    sparse::Colour* colours;
    SPARSE_EVERYWHERE void operator()(int row) const {
        colours[row] = static_cast<sparse::Colour>(places[colours[row]]);
    }
};

struct MapList {
    const int* from;
    const int* map;
    int* to;
    SPARSE_EVERYWHERE void operator()(int place) const { to[place] = map[from[place]]; }
};

struct CopyInts {
    const int* from;
    int* to;
    SPARSE_EVERYWHERE void operator()(int place) const { to[place] = from[place]; }
};

struct FillInts {
    int* to;
    int value;
    SPARSE_EVERYWHERE void operator()(int place) const { to[place] = value; }
};

/// For --inject-fault: one row in the middle gets the colour of a neighbour.
struct SpoilColour {
    Rows rows;
    sparse::Colour* colours;
    SPARSE_EVERYWHERE void operator()(int) const {
        const int row = rows.rows / 2;
        for (int k = 0; k < rows.degree(row); ++k) {
            const int column = rows.neighbour(row, k);
            if (column == row || column >= rows.rows || colours[column] == colours[row]) continue;
            colours[row] = colours[column];
            return;
        }
    }
};

/// One level in its new order.
template <typename Runner>
struct Layout {
    template <typename T>
    using Array = typename Runner::template Array<T>;

    int rows = 0;
    int positions = 0;  ///< rows, each colour filled up to whole slices
    int halo = 0;
    std::vector<int> first_slices;  ///< of each colour, and the end
    int clashes = 0;
    std::int64_t lower_places = 0;
    std::int64_t upper_places = 0;
    std::int64_t coarse_places = 0;  ///< of the upper ones, those that a post-smoothing sweep reads
    double lower_bytes = 0;          ///< values and columns of the places
    double upper_bytes = 0;
    double coarse_bytes = 0;
    std::int64_t listed_slots = -1;  ///< slots that list their columns; -1: all do
    Array<int> position_of_row;
    Array<int> row_of_position;
    Array<std::int64_t> lower_offsets;
    Array<std::int64_t> upper_offsets;
    Array<int> coarse_width;
    Array<int> lower_columns;
    Array<int> upper_columns;
    /// By slot if columns are consecutive, otherwise empty; see runs.h.
    Array<int> lower_firsts;
    Array<int> upper_firsts;
    Array<double> lower_values;
    Array<double> upper_values;
    Array<double> diagonal;
    int inner_slices = 0;  ///< without columns of other ranks
    /// These, then the others, each with slices of neighbouring rows close together.
    Array<int> interleaved;

    int colours() const { return static_cast<int>(first_slices.size()) - 1; }
    int slices() const { return first_slices.back(); }
    typename Runner::Matrix lower() const {
        return Runner::Matrix::of(lower_offsets.data(), lower_columns.data(), lower_values.data(),
                                  lower_firsts.data());
    }
    typename Runner::Matrix upper() const {
        return Runner::Matrix::of(upper_offsets.data(), upper_columns.data(), upper_values.data(),
                                  upper_firsts.data());
    }
};

/// Slices in the order in which a product reads them: an equal share of each colour in turn, so that nearby
/// elements of the vector are read while they are in the cache.
inline std::vector<int> interleave(const std::vector<int>& first_slices, int shares) {
    std::vector<int> order;
    order.reserve(static_cast<std::size_t>(first_slices.back()));
    for (int share = 0; share < shares; ++share) {
        for (std::size_t colour = 0; colour + 1 < first_slices.size(); ++colour) {
            const std::int64_t count = first_slices[colour + 1] - first_slices[colour];
            const auto begin = static_cast<int>(count * share / shares);
            const auto end = static_cast<int>(count * (share + 1) / shares);
            for (int slice = begin; slice < end; ++slice) order.push_back(first_slices[colour] + slice);
        }
    }
    return order;
}

/// An order of the colours in which Gauss-Seidel converges well. The last colour stays last, and the one with
/// the most entries coupling it to that one comes first. In between, strongly coupled colours are adjacent in
/// pairs, and each pair begins with the one that is coupled more weakly to the previous pair.
/// @param counts entries by two colours, `colours` x `colours`
/// @return the new place of each colour
inline std::vector<int> order_colours(const std::vector<int>& counts, int colours) {
    const auto coupling = [&](int a, int b) {
        return counts[static_cast<std::size_t>(a) * static_cast<std::size_t>(colours) +
                      static_cast<std::size_t>(b)];
    };
    // Counts come from a sample, so only a clear difference counts, and all levels have the same order.
    const auto more = [](int a, int b) { return 4.0 * a > 5.0 * b; };
    std::vector<int> place(static_cast<std::size_t>(colours), -1);
    const int last = colours - 1;
    place.back() = last;
    int next = 0;
    int before = last;
    const auto put = [&](int colour) {
        place[static_cast<std::size_t>(colour)] = next++;
        before = colour;
    };
    const auto free = [&](int colour) { return place[static_cast<std::size_t>(colour)] < 0; };
    int first = -1;
    for (int c = 0; c < last; ++c) {
        if (first < 0 || more(coupling(last, c), coupling(last, first))) first = c;
    }
    if (first >= 0) put(first);
    while (next < last) {
        int a = -1;
        int b = -1;
        for (int c = 0; c < last; ++c) {
            for (int d = c + 1; free(c) && d < last; ++d) {
                if (free(d) && (a < 0 || more(coupling(c, d), coupling(a, b)))) {
                    a = c;
                    b = d;
                }
            }
        }
        if (a < 0) {  // one is left
            for (int c = 0; c < last; ++c) {
                if (free(c)) put(c);
            }
            break;
        }
        if (more(coupling(before, a), coupling(before, b))) std::swap(a, b);
        put(a);
        put(b);
    }
    return place;
}

template <typename Runner>
typename Runner::template Array<std::int64_t> offsets_of(Runner& runner, const std::vector<int>& widths,
                                                         const std::vector<int>& more, int height) {
    std::vector<std::int64_t> offsets(widths.size() + 1);
    for (std::size_t s = 0; s < widths.size(); ++s) {
        const std::int64_t width = widths[s] + (more.empty() ? 0 : more[s]);
        offsets[s + 1] = offsets[s] + width * height;
    }
    return runner.upload(offsets);
}

/// Fills the slices so that every place has its column.
template <typename Runner>
void list_columns(Runner& runner, Layout<Runner>& out, const Sorting& sorting, const double* diagonal) {
    const int height = Runner::height;
    const auto slices = static_cast<std::size_t>(out.slices());
    auto lower_width = runner.template make<int>(slices);
    out.coarse_width = runner.template make<int>(slices);
    auto upper_width = runner.template make<int>(slices);
    auto clashes = runner.template make<int>(1);
    runner.each(out.positions, CountEntries{sorting, out.row_of_position.data(), height, lower_width.data(),
                                            out.coarse_width.data(), upper_width.data(), clashes.data()});
    out.clashes = runner.fetch(clashes.data());
    const std::vector<int> coarse_widths = runner.download(out.coarse_width.data(), slices);
    out.lower_offsets = offsets_of(runner, runner.download(lower_width.data(), slices), {}, height);
    out.upper_offsets =
        offsets_of(runner, runner.download(upper_width.data(), slices), coarse_widths, height);
    out.lower_places = runner.fetch(out.lower_offsets.data() + slices);
    out.upper_places = runner.fetch(out.upper_offsets.data() + slices);
    for (int width : coarse_widths) out.coarse_places += std::int64_t{width} * height;
    out.lower_columns = runner.template make<int>(static_cast<std::size_t>(out.lower_places), false);
    out.lower_values = runner.template make<double>(static_cast<std::size_t>(out.lower_places), false);
    out.upper_columns = runner.template make<int>(static_cast<std::size_t>(out.upper_places), false);
    out.upper_values = runner.template make<double>(static_cast<std::size_t>(out.upper_places), false);
    out.diagonal = runner.template make<double>(static_cast<std::size_t>(out.positions));
    runner.each(out.positions,
                FillSlices{sorting, out.row_of_position.data(), out.position_of_row.data(), diagonal, height,
                           out.positions, out.lower_offsets.data(), out.lower_columns.data(),
                           out.lower_values.data(), out.upper_offsets.data(), out.coarse_width.data(),
                           out.upper_columns.data(), out.upper_values.data(), out.diagonal.data()});
    constexpr double entry = sizeof(double) + sizeof(int);
    out.lower_bytes = entry * static_cast<double>(out.lower_places);
    out.coarse_bytes = entry * static_cast<double>(out.coarse_places);
    out.upper_bytes = entry * static_cast<double>(out.upper_places);
}

template <typename Runner>
void fill_matrix(Runner& runner, Layout<Runner>& out, const Sorting& sorting, const double* diagonal,
                 const Slices*) {
    list_columns(runner, out, sorting, diagonal);
}

/// @param coarse_rows rows that also exist on the coarser level, `coarse_count` of them; null on the coarsest
/// level
/// @param spoil one row gets a wrong colour, for tests
/// @throws std::runtime_error as peel()
template <typename Runner>
Layout<Runner> lay_out(Runner& runner, const Rows& rows, int halo, const double* diagonal,
                       const int* coarse_rows, int coarse_count, bool spoil) {
    const int height = Runner::height;
    const auto count = static_cast<std::size_t>(rows.rows);
    Layout<Runner> out;
    out.rows = rows.rows;
    out.halo = halo;

    auto apart = runner.template make<unsigned char>(count);
    auto colours = runner.template make<sparse::Colour>(count);
    const int chunks = (rows.rows + rows_of_chunk - 1) / rows_of_chunk;
    auto max_of_chunk = runner.template make<int>(static_cast<std::size_t>(chunks));
    const auto colour = [&](const BeginColours& begin, int rows_to_colour) {
        runner.each(rows.rows, begin);
        sparse::colour_rows(runner, rows, colours.data(), rows_to_colour);
        runner.each(chunks, MaxColour{colours.data(), rows.rows, max_of_chunk.data()});
        const std::vector<int> maximum =
            runner.download(max_of_chunk.data(), static_cast<std::size_t>(chunks));
        return 1 + *std::max_element(maximum.begin(), maximum.end());
    };
    bool keep_apart = false;
    std::vector<int> found(4);
    auto joined = runner.template make<unsigned char>(count);
    if (coarse_rows != nullptr) {
        // Coarse points come last: the coarser level uses their residual after the backward sweep, which is
        // zero in the first colour.
        runner.each(coarse_count, MarkRows{coarse_rows, apart.data()});
        auto facts = runner.template make<int>(4);
        runner.each(rows.rows, CountJoined{rows, apart.data(), joined.data(), facts.data()});
        const int maximum = runner.fetch(facts.data() + 1);
        runner.each(rows.rows, FindJoined{rows, apart.data(), joined.data(), maximum, facts.data()});
        found = runner.download(facts.data(), 4);
        keep_apart = found[0] == 0;
    }
    const unsigned char* const kept = keep_apart ? apart.data() : nullptr;
    const int rows_to_colour = rows.rows - (keep_apart ? coarse_count : 0);
    int number = colour(BeginColours{kept, nullptr, 0, colours.data()}, rows_to_colour);
    if (number > regular_colours && keep_apart && found[1] > 0 && found[2] == 0) {
        // Irregular numbering: the rows opposite the coarse points get the first colour, as in a regular one,
        // which saves many iterations.
        number =
            colour(BeginColours{kept, joined.data(), found[1], colours.data()}, rows_to_colour - found[3]);
    }
    if (number > sparse::max_colours - 2) throw std::runtime_error("the matrix needs more than 252 colours");
    if (keep_apart) runner.each(rows.rows, EndColours{colours.data(), number++});
    // More of them result from an irregular graph, for which no order is better than another.
    if (number <= regular_colours) {
        constexpr int samples = 8192;
        auto counts = runner.template make<int>(static_cast<std::size_t>(number * number));
        runner.each(samples, CountCouplings{rows, colours.data(), number, counts.data()});
        const auto places =
            runner.upload(order_colours(runner.download(counts.data(), counts.size()), number));
        runner.each(rows.rows, Recolour{places.data(), colours.data()});
    }
    if (spoil) runner.each(1, SpoilColour{rows, colours.data()});

    auto next =
        runner.template make<int>(static_cast<std::size_t>(number) * static_cast<std::size_t>(chunks));
    runner.each(chunks, CountColours{colours.data(), rows.rows, chunks, next.data()});
    std::vector<int> places = runner.download(next.data(), next.size());
    int position = 0;
    for (int colour = 0; colour < number; ++colour) {
        position = (position + height - 1) / height * height;
        out.first_slices.push_back(position / height);
        for (int chunk = 0; chunk < chunks; ++chunk) {
            int& place = places[static_cast<std::size_t>(colour) * static_cast<std::size_t>(chunks) +
                                static_cast<std::size_t>(chunk)];
            const int many = place;
            place = position;
            position += many;
        }
    }
    out.positions = (position + height - 1) / height * height;
    out.first_slices.push_back(out.positions / height);
    const auto all = static_cast<std::size_t>(out.positions);
    next = runner.upload(places);
    out.position_of_row = runner.template make<int>(count);
    out.row_of_position = runner.template make<int>(all);
    runner.each(out.positions, FillInts{out.row_of_position.data(), -1});
    runner.each(chunks, PlaceRows{colours.data(), rows.rows, chunks, next.data(), out.position_of_row.data(),
                                  out.row_of_position.data()});

    const Sorting sorting = {rows, colours.data(), coarse_rows == nullptr ? nullptr : apart.data()};
    fill_matrix(runner, out, sorting, diagonal, static_cast<const typename Runner::Matrix*>(nullptr));
    std::vector<int> order =
        interleave(out.first_slices, std::max(1, out.slices() / out.colours() / slices_of_share));
    out.inner_slices = out.slices();
    if (halo > 0) {
        const auto slices = static_cast<std::size_t>(out.slices());
        auto outer = runner.template make<unsigned char>(slices);
        runner.each(out.positions, MarkOuter{rows, out.row_of_position.data(), height, outer.data()});
        const std::vector<unsigned char> marks = runner.download(outer.data(), slices);
        const auto end = std::stable_partition(order.begin(), order.end(), [&](int slice) {
            return marks[static_cast<std::size_t>(slice)] == 0;
        });
        out.inner_slices = static_cast<int>(end - order.begin());
    }
    out.interleaved = runner.upload(order);
    return out;
}

}  // namespace hpcg
