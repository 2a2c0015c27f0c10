// Runs the functors and passes of HPCG on the host, with OpenMP.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/host_array.h"
#include "programs/hpcg/engine.h"
#include "programs/hpcg/lanes.h"
#include "programs/hpcg/ranks.h"
#include "programs/hpcg/runs.h"
#include "programs/hpcg/sweeps.h"

namespace hpcg {

/// Zeroed memory. The pages of large arrays belong to the threads that first wrote them. Small arrays have no
/// pages of their own, whose allocation is slow.
template <typename T>
class HostMemory {
  public:
    HostMemory() = default;
    explicit HostMemory(std::size_t size) : size_(size) {
        const auto bytes = static_cast<std::int64_t>(size * sizeof(T));
        if (bytes < min_pages) {
            small_ = std::vector<double>((size * sizeof(T) + sizeof(double) - 1) / sizeof(double));
            return;
        }
        pages_.reset(new tenken::HostArray((size * sizeof(T) + sizeof(double) - 1) / sizeof(double)));
        char* const from = reinterpret_cast<char*>(pages_->data());
        constexpr std::int64_t step = 4096;
#pragma omp parallel for schedule(static)
        for (std::int64_t at = 0; at < bytes; at += step) {
            std::fill(from + at, from + std::min(at + step, bytes), 0);
        }
    }
    T* data() { return reinterpret_cast<T*>(pages_ ? pages_->data() : small_.data()); }
    const T* data() const { return reinterpret_cast<const T*>(pages_ ? pages_->data() : small_.data()); }
    std::size_t size() const { return size_; }

  private:
    static constexpr std::int64_t min_pages = std::int64_t{1} << 20;

    std::unique_ptr<tenken::HostArray> pages_;
    std::vector<double> small_;
    std::size_t size_ = 0;
};

class HostRunner {
  public:
    template <typename T>
    using Array = HostMemory<T>;
    using Matrix = RunningSlices;
    /// Rows of a slice: four registers of the widest vector units. One does not saturate the memory.
    static constexpr int height = 32;
    static constexpr bool one_by_one = true;
    static constexpr bool rows_side_by_side = false;

    /// @param finds_runs whether consecutive columns are represented by the first of them
    explicit HostRunner(Ranks& ranks, bool finds_runs = true) : ranks_(ranks), finds_runs_(finds_runs) {}

    bool finds_runs() const { return finds_runs_; }

    template <typename T>
    Array<T> make(std::size_t size, bool zeroed = true) {
        (void)zeroed;
        return size == 0 ? Array<T>() : Array<T>(size);
    }
    template <typename T>
    Array<T> upload(const std::vector<T>& from) {
        Array<T> to = make<T>(from.size());
        std::copy(from.begin(), from.end(), to.data());
        return to;
    }
    template <typename T>
    std::vector<T> download(const T* from, std::size_t size) {
        return std::vector<T>(from, from + size);
    }
    template <typename T>
    T fetch(const T* from) {
        return *from;
    }
    void synchronize() {}

    template <typename Functor>
    void each(int count, const Functor& functor) {
#pragma omp parallel for schedule(static) if (count > few)
        for (int i = 0; i < count; ++i) functor(i);
    }
    template <typename Functor>
    void each_counted(const int* count, int, const Functor& functor) {
        const int all = *count;
        for (int i = 0; i < all; ++i) functor(i);
    }

    /// The sum over blocks of fixed size in their order: the same with any number of threads.
    template <typename Functor>
    void sum(int count, const Functor& functor, double* to) {
        const int blocks = (count + block - 1) / block;
        partial_.resize(static_cast<std::size_t>(blocks));
#pragma omp parallel for schedule(static) if (count > few)
        for (int b = 0; b < blocks; ++b) {
            const int end = std::min(count, (b + 1) * block);
            double sums[8] = {};
            int i = b * block;
            for (; i + 8 <= end; i += 8) {
                for (int lane = 0; lane < 8; ++lane) sums[lane] += functor(i + lane);
            }
            double total = 0;
            for (; i < end; ++i) total += functor(i);
            for (double lane : sums) total += lane;
            partial_[static_cast<std::size_t>(b)] = total;
        }
        double total = 0;
        for (double part : partial_) total += part;
        *to = total;
    }

    template <typename Functor>
    void each_pair(int count, const Functor& functor) {
        each(count, functor);
    }
    template <typename Functor>
    void sum_pair(int count, const Functor& functor, double* to) {
        sum(count, functor, to);
    }

    template <typename Functor>
    double maximum(int count, const Functor& functor) {
        double found = 0;
        bool bad = false;
#pragma omp parallel for schedule(static) reduction(max : found) reduction(|| : bad)
        for (int i = 0; i < count; ++i) {
            const double value = functor(i);
            found = std::max(found, value);
            bad = bad || !std::isfinite(value);
        }
        return bad ? std::nan("") : found;
    }

    template <typename Op>
    void sweep(int first, int slices, const Op& op) {
#pragma omp parallel for schedule(static) if (slices > few / height)
        for (int s = first; s < first + slices; ++s) slice(op, s);
    }
    template <typename Op>
    void sweep_listed(const int* list, int slices, const Op& op) {
#pragma omp parallel for schedule(static) if (slices > few / height)
        for (int i = 0; i < slices; ++i) slice(op, list[i]);
    }

    void begin_sum() { total_ = 0; }
    /// @param order the slices to take, or null for those from `first` on
    template <typename Op>
    void sweep_sum(int first, int slices, const int* order, const Op& op) {
        constexpr int of_block = 16;
        const int blocks = (slices + of_block - 1) / of_block;
        partial_.resize(static_cast<std::size_t>(blocks));
#pragma omp parallel for schedule(static) if (slices > few / height)
        for (int b = 0; b < blocks; ++b) {
            double total = 0;
            for (int i = b * of_block; i < std::min(slices, (b + 1) * of_block); ++i) {
                total += slice(op, order == nullptr ? first + i : order[i]);
            }
            partial_[static_cast<std::size_t>(b)] = total;
        }
        for (double part : partial_) total_ += part;
    }
    void end_sum(double* to) { *to = total_; }

    /// Work that is the same every time; a GPU records it once.
    struct Captured {};
    template <typename Work>
    void captured(Captured&, const Work& work) {
        work();
    }

    void exchange(const Halo& halo, const double* send, double* receive) {
        ranks_.exchange(halo, send, receive);
    }
    void begin_exchange(const Halo& halo, const double* send, double* receive) {
        ranks_.exchange(halo, send, receive);
    }
    void end_exchange() {}
    void all_sum(double* number) { ranks_.sum(number, 1); }

    void mark(Phase phase) {
        const double now = tenken::now_seconds();
        times_.add(phase_, now - since_);
        since_ = now;
        phase_ = phase;
    }
    void clear_times() {
        mark(Phase::none);
        times_ = PhaseSeconds();
    }
    PhaseSeconds times() {
        mark(Phase::none);
        return times_;
    }

  private:
    /// Number of elements below which one thread is faster than waking the others.
    static constexpr int few = 2048;
    static constexpr int block = 4096;
    /// Prefetch distance of the values, in places, since the hardware prefetcher stops at the next page.
    static constexpr int values_ahead = 512;
    static constexpr int packs = height / lanes;

    template <typename Op>
    static double slice(const Op& op, int s) {
        double sums[Op::gathers][height];
        for (int which = 0; which < Op::gathers; ++which) sum_up(op.gather(which, s, height), sums[which]);
        double parts[height];
#pragma omp simd
        for (int l = 0; l < height; ++l) {
            double mine[Op::gathers];
            for (int which = 0; which < Op::gathers; ++which) mine[which] = sums[which][l];
            parts[l] = op.finish(s * height + l, mine);
        }
        double total = 0;
        for (double part : parts) total += part;
        return total;
    }

    static void sum_up(const RunningSlices::Gather& gather, double* sums) {
        Lanes total[packs];
        for (Lanes& pack : total) pack = Lanes{};
        if (gather.firsts == nullptr) {
            add_listed(gather.columns, gather.values, gather.from, gather.width, total);
        } else {
            const int* const firsts = gather.firsts;
            const double* values = gather.values;
            for (int k = 0; k < gather.width;) {
                for (; k < gather.width && firsts[k] >= 0; ++k, values += height) {
                    const double* const from = gather.from + firsts[k];
                    for (int pack = 0; pack < packs; ++pack) {
                        prefetch_for_later(values + values_ahead + pack * lanes);
                        Lanes value;
                        Lanes x;
                        load_lanes(value, values + pack * lanes);
                        load_lanes(x, from + pack * lanes);
                        total[pack] += value * x;
                    }
                }
                const int begin = k;
                while (k < gather.width && firsts[k] < 0) ++k;
                if (k == begin) break;
                add_listed(gather.columns + (-1 - std::int64_t{firsts[begin]}) * height, values, gather.from,
                           k - begin, total);
                values += (k - begin) * height;
            }
        }
        for (int pack = 0; pack < packs; ++pack) store_lanes(sums + pack * lanes, total[pack]);
    }

    /// Slots that list their columns.
    static void add_listed(const int* columns, const double* values, const double* from, int width,
                           Lanes* total) {
        for (int k = 0; k < width; ++k) {
            for (int pack = 0; pack < packs; ++pack, columns += lanes, values += lanes) {
                prefetch_for_later(values + values_ahead);
                Lanes value;
                Lanes x;
                load_lanes(value, values);
                gather_lanes(x, from, columns);
                total[pack] += value * x;
            }
        }
    }

    Ranks& ranks_;
    bool finds_runs_;
    std::vector<double> partial_;
    double total_ = 0;
    PhaseSeconds times_;
    double since_ = tenken::now_seconds();
    Phase phase_ = Phase::none;
};

}  // namespace hpcg
