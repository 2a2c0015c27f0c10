// Slices with consecutive columns (runs): in many slots of a slice, whatever the matrix, the column of each
// row is that of the previous row plus one. Then the first column is sufficient, and the elements of the
// vector are loaded together. Runs are searched in the columns of every slice; nothing else is assumed of the
// matrix. Other slots list their columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "programs/hpcg/layout.h"
#include "programs/hpcg/sweeps.h"

namespace hpcg {

/// One part of the matrix as read by the host. Place k of lane l of slice s has its value at
/// offsets[s] + k * height + l, which is slot (offsets[s] / height + k).
struct RunningSlices {
    struct Gather {
        const int* firsts;
        const int* columns;
        const double* values;
        const double* from;
        int width;
    };

    const std::int64_t* offsets;
    /// Null if every place has its own column, as in Slices.
    /// Otherwise by slot: the column of the first lane, if lane l has this column + l; or -1 - n, if lane l
    /// has columns[n * height + l].
    const int* firsts;
    const int* columns;
    const double* values;

    static RunningSlices of(const std::int64_t* offsets, const int* columns, const double* values,
                            const int* firsts) {
        return {offsets, firsts, columns, values};
    }
    Gather gather(std::int64_t begin, int width, const double* from, int height) const {
        if (firsts == nullptr) return {nullptr, columns + begin, values + begin, from, width};
        return {firsts + begin / height, columns, values + begin, from, width};
    }
    /// Bytes of the slots [begin, end) of places.
    double bytes(std::int64_t begin, std::int64_t end, int height) const {
        const std::int64_t slots = (end - begin) / height;
        double bytes = static_cast<double>(sizeof(double) * (end - begin));
        if (firsts == nullptr) return bytes + static_cast<double>(sizeof(int) * (end - begin));
        for (std::int64_t slot = begin / height; slot < begin / height + slots; ++slot) {
            bytes += static_cast<double>(sizeof(int) * (firsts[slot] < 0 ? 1 + height : 1));
        }
        return bytes;
    }
};

/// The slots of one part of a slice. Entries with the same difference between column and lane can share a
/// slot with consecutive columns, in which rows without such an entry have the value 0. Entries shared by few
/// rows are cheaper in slots that list their columns, with each row's next entry in the next slot. The number
/// of runs is chosen for the fewest bytes.
template <int height>
class SlotPlan {
  public:
    /// @param end columns that a slot may touch are below it
    explicit SlotPlan(int end) : last_(end - height) { std::fill(found_, found_ + max_found, -1); }

    void add(int lane, int column, double value) {
        Entry& entry = entries_[count_++];
        entry = {column, static_cast<std::int16_t>(lane), -1, value};
        const int first = column - lane;
        if (first < 0 || first > last_) return;
        // Rows mostly list their columns in the same order.
        const int group = next_ < groups_ && firsts_[next_] == first ? next_ : group_of(first);
        next_ = group + 1 < groups_ ? group + 1 : 0;
        const std::uint32_t bit = std::uint32_t{1} << lane;
        if ((members_[group] & bit) != 0) return;  // duplicate within one row
        members_[group] |= bit;
        entry.group = static_cast<std::int16_t>(group);
    }

    /// Chooses the runs; nothing is added afterwards.
    void choose() {
        int order[maximum];
        for (int group = 0; group < groups_; ++group) order[group] = group;
        const auto size = [&](int group) { return members(members_[group]); };
        std::stable_sort(order, order + groups_, [&](int a, int b) { return size(a) > size(b); });
        int left[height] = {};
        int width = 0;
        for (int e = 0; e < count_; ++e) {
            if (entries_[e].group < 0) width = std::max(width, ++left[entries_[e].lane]);
        }
        constexpr int of_run = height * 8 + 4;
        constexpr int of_list = height * 12 + 4;
        runs_ = groups_;
        int minimum = groups_ * of_run + width * of_list;
        listed_ = width;
        for (int runs = groups_; runs-- > 0;) {
            const std::uint32_t lost = members_[order[runs]];
            for (int lane = 0; lane < height; ++lane) {
                if ((lost >> lane & 1) != 0) width = std::max(width, ++left[lane]);
            }
            const int cost = runs * of_run + width * of_list;
            if (cost >= minimum) continue;
            minimum = cost;
            runs_ = runs;
            listed_ = width;
        }
        std::fill(slots_, slots_ + groups_, -1);
        for (int i = 0; i < runs_; ++i) slots_[order[i]] = 0;
        int slot = 0;
        for (int group = 0; group < groups_; ++group) {
            if (slots_[group] == 0) slots_[group] = slot++;
        }
    }

    int runs() const { return runs_; }
    int listed() const { return listed_; }
    int width() const { return runs_ + listed_; }

    /// Writes firsts and values of all slots, and the columns of those listed.
    /// @param first_listed the number of the first listed slot
    /// @param position of lane 0: a place without an entry has its own row as column, and the value 0
    void write(int* firsts, double* values, int* columns, int first_listed, int position) const {
        std::fill(values, values + width() * height, 0.0);
        for (int group = 0; group < groups_; ++group) {
            if (slots_[group] >= 0) firsts[slots_[group]] = firsts_[group];
        }
        for (int i = 0; i < listed_; ++i) {
            firsts[runs_ + i] = -1 - (first_listed + i);
            for (int lane = 0; lane < height; ++lane) columns[i * height + lane] = position + lane;
        }
        int next[height] = {};
        for (int e = 0; e < count_; ++e) {
            const Entry& entry = entries_[e];
            const int lane = entry.lane;
            if (entry.group >= 0 && slots_[entry.group] >= 0) {
                values[slots_[entry.group] * height + lane] = entry.value;
                continue;
            }
            columns[next[lane] * height + lane] = entry.column;
            values[(runs_ + next[lane]++) * height + lane] = entry.value;
        }
    }

  private:
    static constexpr int maximum = height * max_entries_of_row;
    /// Places of a hash table of groups: a power of 2 above `maximum`.
    static constexpr int max_found = 1024;
    static_assert(height <= 32 && maximum < max_found, "slices that are too tall");
    struct Entry {
        int column;
        std::int16_t lane;
        std::int16_t group;
        double value;
    };

    int group_of(int first) {
        auto at = static_cast<std::uint32_t>(first) * std::uint32_t{2654435769u} >> 22;
        for (; found_[at] >= 0; at = (at + 1) % max_found) {
            if (firsts_[found_[at]] == first) return found_[at];
        }
        found_[at] = static_cast<std::int16_t>(groups_);
        firsts_[groups_] = first;
        members_[groups_] = 0;
        return groups_++;
    }
    static int members(std::uint32_t set) {
        int count = 0;
        for (; set != 0; set &= set - 1) ++count;
        return count;
    }

    int last_;
    int count_ = 0;
    int groups_ = 0;
    int next_ = 0;
    int runs_ = 0;
    int listed_ = 0;
    Entry entries_[maximum];
    int firsts_[maximum];
    std::uint32_t members_[maximum];
    int slots_[maximum];
    std::int16_t found_[max_found];
};

/// The three parts of a slice.
template <int height>
struct SlicePlan {
    SlotPlan<height> lower;
    SlotPlan<height> coarse;
    SlotPlan<height> upper;
    int clashes = 0;

    SlicePlan(const Sorting& sorting, const int* row_of_position, const int* position_of_row, int positions,
              int halo, int slice)
        : lower(positions + halo), coarse(positions), upper(positions) {
        for (int lane = 0; lane < height; ++lane) {
            const int row = row_of_position[slice * height + lane];
            if (row < 0) continue;
            const int length = sorting.rows.degree(row);
            for (int k = 0; k < length; ++k) {
                const int column = sorting.rows.neighbour(row, k);
                const Side side = sorting.side(row, column);
                if (side == Side::diagonal) continue;
                const bool mine = column < sorting.rows.rows;
                if (mine && sorting.colours[column] == sorting.colours[row]) ++clashes;
                SlotPlan<height>& plan = side == Side::lower ? lower : side == Side::coarse ? coarse : upper;
                plan.add(lane, mine ? position_of_row[column] : positions + column - sorting.rows.rows,
                         sorting.rows.values[sorting.rows.at(row, k)]);
            }
        }
        lower.choose();
        coarse.choose();
        upper.choose();
    }
};

template <int height>
struct CountSlots {
    Sorting sorting;
    const int* row_of_position;
    const int* position_of_row;
    int positions;
    int halo;
    int* lower_width;
    int* coarse_width;
    int* upper_width;
    int* lower_listed;
    int* upper_listed;  ///< with those of coarse points
    int* clashes;

    void operator()(int slice) const {
        const SlicePlan<height> plan(sorting, row_of_position, position_of_row, positions, halo, slice);
        lower_width[slice] = plan.lower.width();
        coarse_width[slice] = plan.coarse.width();
        upper_width[slice] = plan.upper.width();
        lower_listed[slice] = plan.lower.listed();
        upper_listed[slice] = plan.coarse.listed() + plan.upper.listed();
        if (plan.clashes > 0) sparse::fetch_add(clashes, plan.clashes);
    }
};

template <int height>
struct FillSlots {
    Sorting sorting;
    const int* row_of_position;
    const int* position_of_row;
    int positions;
    int halo;
    const double* diagonal;  ///< by row
    const std::int64_t* lower_offsets;
    const std::int64_t* lower_listed;  ///< places of the columns listed, by slice
    int* lower_firsts;
    int* lower_columns;
    double* lower_values;
    const std::int64_t* upper_offsets;
    const std::int64_t* upper_listed;
    int* upper_firsts;
    int* upper_columns;
    double* upper_values;
    double* diagonal_by_position;

    void operator()(int slice) const {
        const SlicePlan<height> plan(sorting, row_of_position, position_of_row, positions, halo, slice);
        const int position = slice * height;
        const auto put = [&](const SlotPlan<height>& part, std::int64_t at, std::int64_t listed, int* firsts,
                             int* columns, double* values) {
            part.write(firsts + at / height, values + at, columns + listed, static_cast<int>(listed / height),
                       position);
        };
        put(plan.lower, lower_offsets[slice], lower_listed[slice], lower_firsts, lower_columns, lower_values);
        std::int64_t at = upper_offsets[slice];
        std::int64_t listed = upper_listed[slice];
        put(plan.coarse, at, listed, upper_firsts, upper_columns, upper_values);
        at += std::int64_t{plan.coarse.width()} * height;
        listed += std::int64_t{plan.coarse.listed()} * height;
        put(plan.upper, at, listed, upper_firsts, upper_columns, upper_values);
        for (int lane = 0; lane < height; ++lane) {
            const int row = row_of_position[position + lane];
            diagonal_by_position[position + lane] = row < 0 ? 1.0 : diagonal[row];
        }
    }
};

/// Fills the slices with runs, or with a column for every place if the runner requires it.
template <typename Runner>
void fill_matrix(Runner& runner, Layout<Runner>& out, const Sorting& sorting, const double* diagonal,
                 const RunningSlices*) {
    if (!runner.finds_runs()) return list_columns(runner, out, sorting, diagonal);
    constexpr int height = Runner::height;
    const auto slices = static_cast<std::size_t>(out.slices());
    const auto numbers = [&] { return runner.template make<int>(slices); };
    auto lower_width = numbers();
    auto upper_width = numbers();
    auto lower_listed = numbers();
    auto upper_listed = numbers();
    out.coarse_width = numbers();
    auto clashes = runner.template make<int>(1);
    const int* const rows = out.row_of_position.data();
    const int* const places = out.position_of_row.data();
    runner.each(out.slices(),
                CountSlots<height>{sorting, rows, places, out.positions, out.halo, lower_width.data(),
                                   out.coarse_width.data(), upper_width.data(), lower_listed.data(),
                                   upper_listed.data(), clashes.data()});
    out.clashes = runner.fetch(clashes.data());
    const auto offsets = [&](const int* widths, const std::vector<int>& more) {
        return offsets_of(runner, runner.download(widths, slices), more, height);
    };
    const std::vector<int> coarse_widths = runner.download(out.coarse_width.data(), slices);
    out.lower_offsets = offsets(lower_width.data(), {});
    out.upper_offsets = offsets(upper_width.data(), coarse_widths);
    const auto lower_lists = offsets(lower_listed.data(), {});
    const auto upper_lists = offsets(upper_listed.data(), {});
    out.lower_places = runner.fetch(out.lower_offsets.data() + slices);
    out.upper_places = runner.fetch(out.upper_offsets.data() + slices);
    for (int width : coarse_widths) out.coarse_places += std::int64_t{width} * height;
    const std::int64_t lower_columns = runner.fetch(lower_lists.data() + slices);
    const std::int64_t upper_columns = runner.fetch(upper_lists.data() + slices);
    out.listed_slots = (lower_columns + upper_columns) / height;
    const auto size = [](std::int64_t places) { return static_cast<std::size_t>(places); };
    out.lower_values = runner.template make<double>(size(out.lower_places), false);
    out.upper_values = runner.template make<double>(size(out.upper_places), false);
    // One more, so that a part without slots is not mistaken for one that lists all its columns.
    out.lower_firsts = runner.template make<int>(size(out.lower_places / height + 1), false);
    out.upper_firsts = runner.template make<int>(size(out.upper_places / height + 1), false);
    out.lower_columns = runner.template make<int>(size(lower_columns), false);
    out.upper_columns = runner.template make<int>(size(upper_columns), false);
    out.diagonal = runner.template make<double>(size(out.positions));
    runner.each(out.slices(),
                FillSlots<height>{sorting, rows, places, out.positions, out.halo, diagonal,
                                  out.lower_offsets.data(), lower_lists.data(), out.lower_firsts.data(),
                                  out.lower_columns.data(), out.lower_values.data(), out.upper_offsets.data(),
                                  upper_lists.data(), out.upper_firsts.data(), out.upper_columns.data(),
                                  out.upper_values.data(), out.diagonal.data()});
    const RunningSlices lower = out.lower();
    const RunningSlices upper = out.upper();
    out.lower_bytes = lower.bytes(0, out.lower_places, height);
    out.upper_bytes = upper.bytes(0, out.upper_places, height);
    out.coarse_bytes = 0;
    for (std::size_t s = 0; s < slices; ++s) {
        const std::int64_t begin = out.upper_offsets.data()[s];
        out.coarse_bytes += upper.bytes(begin, begin + std::int64_t{coarse_widths[s]} * height, height);
    }
}

/// Makes the residual of coarse points the right-hand side of the coarser level, by the slices that contain
/// them.
template <typename Runner>
class Restriction<Runner, RunningSlices> {
  public:
    Restriction() = default;
    Restriction(Runner& runner, const Layout<Runner>& layout, const int* fine_positions,
                const int* coarse_positions, int coarse_rows) {
        const int height = Runner::height;
        std::vector<int> coarse_of_position(static_cast<std::size_t>(layout.positions), -1);
        for (int place = 0; place < coarse_rows; ++place) {
            coarse_of_position[static_cast<std::size_t>(fine_positions[place])] = coarse_positions[place];
        }
        std::vector<int> slices;
        const RunningSlices lower = layout.lower();
        for (int slice = 0; slice < layout.slices(); ++slice) {
            const auto begin = coarse_of_position.begin() + slice * height;
            if (*std::max_element(begin, begin + height) < 0) continue;
            slices.push_back(slice);
            bytes_ += lower.bytes(lower.offsets[slice], lower.offsets[slice + 1], height);
        }
        slices_ = runner.upload(slices);
        coarse_of_position_ = runner.upload(coarse_of_position);
    }

    void run(Runner& runner, const RunningSlices& lower, const double* q, double* coarse_r) const {
        runner.sweep_listed(slices_.data(), static_cast<int>(slices_.size()),
                            RestrictSlices<RunningSlices>{lower, q, coarse_of_position_.data(), coarse_r});
    }
    /// Of the matrix.
    double bytes() const { return bytes_; }

  private:
    typename Runner::template Array<int> slices_;
    typename Runner::template Array<int> coarse_of_position_;
    double bytes_ = 0;
};

}  // namespace hpcg
