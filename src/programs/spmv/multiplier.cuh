// The variants of SpMV for a matrix on a GPU: built-in kernels for CSR and sliced ELL, and cuSPARSE. For each
// kernel a few launch configurations are tried on the matrix itself, and the fastest is measured. Each
// precision has a separate source file that includes this: a single one would delay the whole build.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "lib/base/statistics.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "lib/sparse/sell.h"
#include "programs/spmv/csr_kernels.cuh"
#include "programs/spmv/flow_kernel.cuh"
#include "programs/spmv/multiplier.h"
#include "programs/spmv/partition.h"
#include "programs/spmv/sell_kernels.cuh"
#include "programs/spmv/sorted.h"
#include "programs/spmv/sorted_kernel.cuh"
#include "programs/spmv/vendor.h"

namespace spmv {

namespace {

using tenken::cuda::DeviceArray;
using tenken::cuda::Stream;

/// One launch configuration of a kernel. Its function owns all data that it needs.
struct Candidate {
    std::string text;
    std::function<void(const Stream&)> enqueue;
};

unsigned blocks_for(std::int64_t threads, int threads_a_block) {
    return static_cast<unsigned>((threads + threads_a_block - 1) / threads_a_block);
}

/// A copy on the GPU, readable up to a group of entries beyond its end.
template <typename T>
std::shared_ptr<DeviceArray<T>> uploaded(const T* from, std::size_t count) {
    const auto array = std::make_shared<DeviceArray<T>>(count + staging_group);
    TENKEN_CUDA(cudaMemset(array->data() + count, 0, staging_group * sizeof(T)));
    if (count > 0) TENKEN_CUDA(cudaMemcpy(array->data(), from, count * sizeof(T), cudaMemcpyHostToDevice));
    return array;
}

template <typename T>
std::shared_ptr<DeviceArray<T>> uploaded(const std::vector<T>& from) {
    return uploaded(from.data(), from.size());
}

template <typename T>
std::shared_ptr<DeviceArray<T>> uploaded_reals(const double* from, std::size_t count) {
    std::vector<T> reals(from, from + count);
    return uploaded(reals);
}

/// Sliced ELL needs no sorting up to this many places per entry.
constexpr double even_padding = 1.1;
/// Rows of up to this many entries are sorted into slices (values in docs/measured.md).
constexpr int longest_in_slice = 512;
/// x is kept in shared memory if at least this fraction of the entries is in the columns that fit.
constexpr double worth_keeping = 0.1;

const char* text_of(Caching caching) {
    return caching == Caching::retaining ? "retaining x" : "streaming";
}

template <typename T>
class TypedMultiplier : public Multiplier {
  public:
    TypedMultiplier(const Problem& problem, const Stream& stream)
        : problem_(problem),
          stream_(stream),
          offsets_(uploaded(matrix().offsets.data(), matrix().offsets.size())),
          columns_(uploaded(matrix().column.data(), matrix().column.size())),
          values_(uploaded_reals<T>(matrix().value.data(), matrix().value.size())),
          x_(uploaded_reals<T>(problem.x.data(), problem.x.size())),
          y_(static_cast<std::size_t>(matrix().rows)) {}

    Outcome measure(const std::string& variant, const Plan& plan, tenken::cuda::Gpu& gpu) override {
        Outcome outcome;
        outcome.traffic_bytes = problem_.csr_traffic();
        std::vector<Candidate> candidates;
        std::unique_ptr<VendorProduct> vendor;
        const double begin = tenken::now_seconds();
        if (variant.compare(0, 9, "cusparse_") == 0) {
            vendor = make_vendor_product<T>(variant, matrix(), view(), x_->data(), y_.data(), stream_,
                                            outcome.left_out);
            if (!vendor) return outcome;
            candidates.push_back({"", [&vendor](const Stream&) { vendor->enqueue(); }});
            outcome.traffic_bytes = vendor->traffic_bytes();
            outcome.padding = vendor->padding();
        } else if (variant == "csr_row") {
            candidates.push_back(lanes_candidate<1>());
        } else if (variant == "csr_warp") {
            candidates = {lanes_candidate<2>(), lanes_candidate<4>(), lanes_candidate<8>(),
                          lanes_candidate<16>(), lanes_candidate<32>()};
        } else if (variant == "csr_bins") {
            candidates = bins_candidates();
        } else if (variant == "csr_merge") {
            for (const bool for_x : {false, true}) {
                merge_candidates<4>(for_x, candidates);
                merge_candidates<5>(for_x, candidates);
                merge_candidates<7>(for_x, candidates);
            }
        } else if (variant == "csr_tile") {
            candidates = tile_candidates();
        } else if (variant == "csr_flow") {
            candidates = flow_candidates(gpu.description(), outcome);
            if (!outcome.left_out.empty()) return outcome;
        } else if (variant == "sell_sorted") {
            candidates = sorted_candidates(gpu.description(), outcome);
            if (!outcome.left_out.empty()) return outcome;
        } else {
            candidates = sell_candidates(outcome);
            if (!outcome.left_out.empty()) return outcome;
        }
        stream_.synchronize();
        outcome.prepare_seconds = tenken::now_seconds() - begin;
        const Candidate& fastest = choose(candidates);
        outcome.launch = fastest.text;

        tenken::cuda::warm_up(plan.warmup_seconds, stream_, fastest.enqueue);
        TENKEN_CUDA(cudaMemsetAsync(y_.data(), 0xff, y_.bytes(), stream_.get()));  // not numbers
        stream_.synchronize();
        {
            const tenken::cuda::TimedPart timed(gpu);
            outcome.seconds = tenken::cuda::time_each(plan.repetitions, stream_, fastest.enqueue).device;
        }
        std::vector<T> y(y_.size());
        TENKEN_CUDA(cudaMemcpy(y.data(), y_.data(), y_.bytes(), cudaMemcpyDeviceToHost));
        outcome.y.assign(y.begin(), y.end());
        return outcome;
    }

  private:
    const sparse::Csr& matrix() const { return *problem_.matrix; }
    CsrView<T> view() const { return {matrix().rows, offsets_->data(), columns_->data(), values_->data()}; }

    /// The fastest by the median of a few runs.
    const Candidate& choose(const std::vector<Candidate>& candidates) const {
        if (candidates.size() == 1) return candidates.front();
        std::size_t best = 0;
        double minimum = 0;
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            tenken::cuda::warm_up(0, stream_, candidates[i].enqueue);
            constexpr long repetitions = 9;
            const double median =
                tenken::median(tenken::cuda::time_each(repetitions, stream_, candidates[i].enqueue).device);
            if (i == 0 || median < minimum) {
                best = i;
                minimum = median;
            }
        }
        return candidates[best];
    }

    template <int lanes>
    Candidate lanes_candidate() {
        const CsrView<T> a = view();
        const T* const x = x_->data();
        T* const y = y_.data();
        return {std::to_string(lanes) + (lanes == 1 ? " lane a row" : " lanes a row"),
                [=](const Stream& stream) {
                    const unsigned blocks = blocks_for(static_cast<std::int64_t>(a.rows) * lanes, 256);
                    csr_lanes_kernel<T, lanes><<<blocks, 256, 0, stream.get()>>>(a, x, y);
                    TENKEN_CUDA(cudaGetLastError());
                }};
    }

    /// Sums the pieces of split rows; does nothing if there are none.
    std::function<void(const Stream&)> adder(const std::vector<SplitRow>& split,
                                             const std::shared_ptr<DeviceArray<T>>& partial) {
        if (split.empty()) return [](const Stream&) {};
        const auto rows = uploaded(split);
        const int count = static_cast<int>(split.size());
        T* const y = y_.data();
        return [=](const Stream& stream) {
            csr_pieces_kernel<T><<<blocks_for(std::int64_t{32} * count, 128), 128, 0, stream.get()>>>(
                rows->data(), count, partial->data(), y);
            TENKEN_CUDA(cudaGetLastError());
        };
    }

    std::vector<Candidate> bins_candidates() {
        const Binning binning = bin_rows(matrix());
        const auto rows = uploaded(binning.rows);
        const auto pieces = uploaded(binning.pieces);
        const auto partial = std::make_shared<DeviceArray<T>>(binning.pieces.size() + 1);
        const auto add = adder(binning.split, partial);
        return {bins_candidate<Caching::streaming>(binning.classes, rows, pieces, partial, add),
                bins_candidate<Caching::retaining>(binning.classes, rows, pieces, partial, add)};
    }

    template <Caching caching>
    Candidate bins_candidate(const RowClasses& list, const std::shared_ptr<DeviceArray<int>>& rows,
                             const std::shared_ptr<DeviceArray<Tile>>& pieces,
                             const std::shared_ptr<DeviceArray<T>>& partial,
                             const std::function<void(const Stream&)>& add) {
        const CsrView<T> a = view();
        const T* const x = x_->data();
        T* const y = y_.data();
        return {text_of(caching), [=](const Stream& stream) {
                    const std::int64_t threads = std::int64_t{32} * list.first_warp[classes + 1];
                    csr_bins_kernel<T, caching><<<blocks_for(threads, 128), 128, 0, stream.get()>>>(
                        list, rows->data(), pieces->data(), a, x, y, partial->data());
                    TENKEN_CUDA(cudaGetLastError());
                    add(stream);
                }};
    }

    /// @param for_x whether most of the L1 is left to x, with fewer blocks at a time
    template <int items>
    void merge_candidates(bool for_x, std::vector<Candidate>& list) {
        list.push_back(merge_candidate<items, Caching::streaming>(for_x));
        list.push_back(merge_candidate<items, Caching::retaining>(for_x));
    }

    template <int items, Caching caching>
    Candidate merge_candidate(bool for_x) {
        const auto kernel = csr_merge_kernel<T, items, caching>;
        const CsrView<T> a = view();
        const T* const x = x_->data();
        T* const y = y_.data();
        const int entries = matrix().entries();
        const int blocks =
            static_cast<int>(blocks_for(static_cast<std::int64_t>(a.rows) + entries, items * merge_threads));
        const auto starts = std::make_shared<DeviceArray<int>>(static_cast<std::size_t>(blocks) + 1);
        const auto carries = std::make_shared<DeviceArray<Carry<T>>>(static_cast<std::size_t>(blocks));
        merge_starts_kernel<items><<<blocks_for(std::int64_t{blocks} + 1, 256), 256, 0, stream_.get()>>>(
            a.offsets, a.rows, entries, blocks, starts->data());
        TENKEN_CUDA(cudaGetLastError());
        constexpr int shared_percent = 29;  // of the maximum shared memory: the best on an H200
        const int carveout = for_x ? shared_percent : static_cast<int>(cudaSharedmemCarveoutDefault);
        const std::string text = std::to_string(items) + " items a thread, " +
                                 (for_x ? "most of the L1 for x, " : "") + text_of(caching);
        return {text, [=](const Stream& stream) {
                    TENKEN_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                                     carveout));
                    kernel<<<static_cast<unsigned>(blocks), merge_threads, 0, stream.get()>>>(
                        a, entries, starts->data(), x, y, carries->data());
                    TENKEN_CUDA(cudaGetLastError());
                    merge_carries_kernel<T><<<blocks_for(blocks, 128), 128, 0, stream.get()>>>(
                        carries->data(), blocks, a.rows, y);
                    TENKEN_CUDA(cudaGetLastError());
                }};
    }

    // Small tiles leave the L1 to x; large ones have more loads in flight (values in docs/measured.md).
    std::vector<Candidate> tile_candidates() {
        std::vector<Candidate> list;
        tile_candidates_of<128>(512, list);
        tile_candidates_of<128>(1024, list);
        tile_candidates_of<128>(1408, list);
        tile_candidates_of<128>(1792, list);
        tile_candidates_of<64>(256, list);
        tile_candidates_of<64>(448, list);
        tile_candidates_of<64>(896, list);
        tile_candidates_of<64>(1792, list);
        return list;
    }

    template <int threads>
    void tile_candidates_of(int max_entries, std::vector<Candidate>& list) {
        const Tiling tiling = tile_rows(matrix(), threads, max_entries);
        const auto tiles = uploaded(tiling.tiles);
        const auto partial = std::make_shared<DeviceArray<T>>(static_cast<std::size_t>(tiling.pieces) + 1);
        const auto add = adder(tiling.split, partial);
        // Copies begin and end at whole groups, so a tile may have up to two groups more than its entries.
        const int capacity = (tiling.largest + 2 * staging_group) / staging_group * staging_group;
        const unsigned blocks = static_cast<unsigned>(tiling.tiles.size());
        const std::string text =
            std::to_string(max_entries) + " entries a tile, " + std::to_string(threads) + " threads, ";
        list.push_back({text + text_of(Caching::streaming),
                        tile_launch<threads, Caching::streaming>(tiles, blocks, capacity, partial, add)});
        list.push_back({text + text_of(Caching::retaining),
                        tile_launch<threads, Caching::retaining>(tiles, blocks, capacity, partial, add)});
    }

    template <int threads, Caching caching>
    std::function<void(const Stream&)> tile_launch(const std::shared_ptr<DeviceArray<Tile>>& tiles,
                                                   unsigned blocks, int capacity,
                                                   const std::shared_ptr<DeviceArray<T>>& partial,
                                                   const std::function<void(const Stream&)>& add) {
        const CsrView<T> a = view();
        const T* const x = x_->data();
        T* const y = y_.data();
        const std::size_t shared = static_cast<std::size_t>(capacity) * (sizeof(T) + sizeof(int));
        return [=](const Stream& stream) {
            csr_tile_kernel<T, threads, caching><<<blocks, threads, shared, stream.get()>>>(
                tiles->data(), a, x, y, partial->data(), capacity);
            TENKEN_CUDA(cudaGetLastError());
            add(stream);
        };
    }

    /// Maximum shared memory of a multiprocessor, and the part reserved for each block, in bytes.
    struct SharedMemory {
        std::size_t of_block;
        std::size_t of_multiprocessor;
        std::size_t kept_back;
    };
    static SharedMemory shared_memory() {
        int device = 0;
        int of_block = 0;
        int of_multiprocessor = 0;
        TENKEN_CUDA(cudaGetDevice(&device));
        TENKEN_CUDA(cudaDeviceGetAttribute(&of_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
        TENKEN_CUDA(
            cudaDeviceGetAttribute(&of_multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
        return {static_cast<std::size_t>(of_block), static_cast<std::size_t>(of_multiprocessor), 1024};
    }

    /// Permits this much shared memory to blocks of a kernel, and leaves the rest of `blocks` of them to
    /// the L1.
    template <typename Kernel>
    static void divide_l1(Kernel kernel, std::size_t shared, std::size_t blocks, const SharedMemory& memory) {
        cudaFuncAttributes attributes;
        TENKEN_CUDA(cudaFuncGetAttributes(&attributes, kernel));
        const std::size_t needed = blocks * (shared + attributes.sharedSizeBytes + memory.kept_back);
        const std::size_t all = memory.of_multiprocessor;
        const std::size_t percent = std::min<std::size_t>(100, (100 * needed + all - 1) / all);
        TENKEN_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(shared)));
        TENKEN_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                         static_cast<int>(percent)));
    }

    // The gather distance of a lane suits rows of some 27 entries: with 1, 2 and 4 lanes per row.
    std::vector<Candidate> flow_candidates(const tenken::DeviceDescription& device, Outcome& outcome) {
        std::vector<Candidate> list;
        for (const int rounds : {1, 2}) {
            flow_candidates_of<8, 27>(864, 1, rounds, device, list);
            flow_candidates_of<16, 14>(432, 1, rounds, device, list);
            flow_candidates_of<12, 7>(216, 2, rounds, device, list);
        }
        if (list.empty()) outcome.left_out = "the shared memory does not hold the tiles of several warps";
        return list;
    }

    template <int max_warps, int ahead>
    void flow_candidates_of(int max_entries, int blocks, int rounds, const tenken::DeviceDescription& device,
                            std::vector<Candidate>& list) {
        flow_candidate<max_warps, ahead, Caching::streaming>(max_entries, blocks, rounds, device, list);
        flow_candidate<max_warps, ahead, Caching::retaining>(max_entries, blocks, rounds, device, list);
    }

    /// Adds a configuration with as many warps as fit into shared memory, if that is sufficient.
    /// @param blocks per multiprocessor
    /// @param rounds tiles per warp in a run of neighbouring ones
    template <int max_warps, int ahead, Caching caching>
    void flow_candidate(int max_entries, int blocks, int rounds, const tenken::DeviceDescription& device,
                        std::vector<Candidate>& list) {
        constexpr int stages = 2;
        constexpr int min_warps = 4;
        const FlowTiles& tiles = flow_tiles(max_entries);
        const auto kernel = csr_flow_kernel<T, max_warps, stages, ahead, caching>;
        const std::size_t of_warp =
            stages * static_cast<std::size_t>(tiles.capacity) * (sizeof(T) + sizeof(int));
        const std::size_t barriers = sizeof(unsigned long long) * max_warps * stages;
        const SharedMemory memory = shared_memory();
        const std::size_t of_block = std::min(
            memory.of_block, memory.of_multiprocessor / static_cast<std::size_t>(blocks) - memory.kept_back);
        const int warps = std::min(max_warps, static_cast<int>((of_block - barriers) / of_warp));
        if (warps < min_warps) return;
        const std::size_t shared = static_cast<std::size_t>(warps) * of_warp;
        const unsigned grid = static_cast<unsigned>(blocks * device.multiprocessors);
        const auto threads = static_cast<unsigned>(32 * warps);
        const int run = warps * rounds;
        const CsrView<T> a = view();
        const T* const x = x_->data();
        T* const y = y_.data();
        const std::string text = std::to_string(max_entries) + " entries a tile, " + std::to_string(blocks) +
                                 " x " + std::to_string(warps) + " warps, runs of " + std::to_string(run) +
                                 " tiles, " + text_of(caching);
        list.push_back({text, [=](const Stream& stream) {
                            divide_l1(kernel, shared, static_cast<std::size_t>(blocks), memory);
                            kernel<<<grid, threads, shared, stream.get()>>>(
                                tiles.list->data(), tiles.count, run, a, x, y, tiles.partial->data(),
                                tiles.capacity);
                            TENKEN_CUDA(cudaGetLastError());
                            tiles.add(stream);
                        }});
    }

    /// The matrix cut into tiles of at most 32 rows.
    struct FlowTiles {
        std::shared_ptr<DeviceArray<Tile>> list;
        std::shared_ptr<DeviceArray<T>> partial;
        std::function<void(const Stream&)> add;
        int count = 0;
        int capacity = 0;
    };
    const FlowTiles& flow_tiles(int max_entries) {
        FlowTiles& tiles = flow_tiles_[max_entries];
        if (tiles.list) return tiles;
        const Tiling tiling = tile_rows(matrix(), 32, max_entries);
        tiles.list = uploaded(tiling.tiles);
        tiles.partial = std::make_shared<DeviceArray<T>>(static_cast<std::size_t>(tiling.pieces) + 1);
        tiles.add = adder(tiling.split, tiles.partial);
        tiles.count = static_cast<int>(tiling.tiles.size());
        tiles.capacity = (tiling.largest + 2 * staging_group) / staging_group * staging_group;
        return tiles;
    }

    /// With x of the busiest columns in shared memory, and without.
    std::vector<Candidate> sorted_candidates(const tenken::DeviceDescription& device, Outcome& outcome) {
        std::vector<Candidate> list;
        const sparse::Buffer<std::int64_t> offsets = sparse::sell_offsets(matrix(), task_lanes);
        const auto entries = static_cast<double>(matrix().entries());
        if (static_cast<double>(offsets[offsets.size() - 1]) <= even_padding * entries) {
            outcome.left_out = "rows are even: sliced ELL needs no sorting";
            return list;
        }
        const Tasks tasks = make_tasks(matrix(), longest_in_slice);
        outcome.padding = static_cast<double>(tasks.places) / entries;
        outcome.traffic_bytes = problem_.sorted_traffic(tasks.places, tasks.list.size(), tasks.rows.size());
        sorted_candidates_of<false>(tasks, BusyColumns(), device, list);
        // Not all of it, since without an L1 the other gathers would lose more.
        const auto kept = static_cast<int>(shared_memory().of_block / 5 * 4 / sizeof(T));
        const BusyColumns busy = busiest_columns(matrix(), kept);
        if (busy.share >= worth_keeping) sorted_candidates_of<true>(tasks, busy, device, list);
        return list;
    }

    template <bool keeps>
    void sorted_candidates_of(const Tasks& tasks, const BusyColumns& busy,
                              const tenken::DeviceDescription& device, std::vector<Candidate>& list) {
        const Places<T> places = fill_places<T>(matrix(), tasks, busy.columns);
        SortedOnGpu sorted;
        sorted.tasks = uploaded(tasks.list);
        sorted.rows = uploaded(tasks.rows);
        sorted.columns = uploaded(places.column.data(), places.column.size());
        sorted.values = uploaded(places.value.data(), places.value.size());
        sorted.busy = uploaded(busy.columns);
        sorted.partial = std::make_shared<DeviceArray<T>>(static_cast<std::size_t>(tasks.partial_sums) + 1);
        sorted.add = adder(tasks.split, sorted.partial);
        sorted.percent = static_cast<int>(100 * busy.share + 0.5);
        sorted.view = {static_cast<int>(tasks.list.size()),
                       sorted.tasks->data(),
                       sorted.rows->data(),
                       sorted.columns->data(),
                       sorted.values->data(),
                       sorted.busy->data(),
                       static_cast<int>(busy.columns.size())};
        sorted_candidate<1024, 4, keeps, Caching::streaming>(sorted, device, list);
        sorted_candidate<1024, 4, keeps, Caching::retaining>(sorted, device, list);
    }

    struct SortedOnGpu {
        std::shared_ptr<DeviceArray<Task>> tasks;
        std::shared_ptr<DeviceArray<int>> rows;
        std::shared_ptr<DeviceArray<int>> columns;
        std::shared_ptr<DeviceArray<T>> values;
        std::shared_ptr<DeviceArray<int>> busy;
        std::shared_ptr<DeviceArray<T>> partial;
        std::function<void(const Stream&)> add;
        TasksView<T> view;
        int percent = 0;  ///< of the entries are in busy columns
    };

    template <int threads, int unroll, bool keeps, Caching caching>
    void sorted_candidate(const SortedOnGpu& sorted, const tenken::DeviceDescription& device,
                          std::vector<Candidate>& list) {
        const auto kernel = sorted_kernel<T, threads, 1, unroll, keeps, caching>;
        const std::size_t shared =
            keeps ? (static_cast<std::size_t>(sorted.view.busy_count) + 1) * sizeof(T) : 0;
        const SharedMemory memory = shared_memory();
        const auto grid = static_cast<unsigned>(device.multiprocessors);
        const T* const x = x_->data();
        T* const y = y_.data();
        const std::string text = "x of " + std::to_string(sorted.view.busy_count) + " columns (" +
                                 std::to_string(sorted.percent) + " % of the entries) in shared memory, " +
                                 text_of(caching);
        list.push_back({text, [=](const Stream& stream) {
                            divide_l1(kernel, shared, 1, memory);
                            kernel<<<grid, threads, shared, stream.get()>>>(sorted.view, x, y,
                                                                            sorted.partial->data());
                            TENKEN_CUDA(cudaGetLastError());
                            sorted.add(stream);
                        }});
    }

    /// Slices of 32 rows with one row per thread, and of 64 with two.
    std::vector<Candidate> sell_candidates(Outcome& outcome) {
        std::vector<Candidate> list;
        sparse::Buffer<std::int64_t> offsets = sparse::sell_offsets(matrix(), 32);
        const std::int64_t places = offsets[offsets.size() - 1];
        if (static_cast<double>(places) > max_padding * matrix().entries()) {
            outcome.left_out = "sliced ELL would be mostly padding";
            return list;
        }
        outcome.padding = static_cast<double>(places) / matrix().entries();
        outcome.traffic_bytes = problem_.sell_traffic(places, static_cast<std::int64_t>(offsets.size()) - 1);
        sell_candidates_of<1>(std::move(offsets), list);
        const std::size_t left = free_on_gpu();
        const std::size_t wanted = static_cast<std::size_t>(places) * (sizeof(T) + sizeof(int));
        if (left > wanted + wanted / 4) sell_candidates_of<2>(sparse::sell_offsets(matrix(), 64), list);
        return list;
    }

    static std::size_t free_on_gpu() {
        std::size_t free = 0;
        std::size_t total = 0;
        TENKEN_CUDA(cudaMemGetInfo(&free, &total));
        return free;
    }

    template <int rows_a_thread>
    void sell_candidates_of(sparse::Buffer<std::int64_t> offsets, std::vector<Candidate>& list) {
        const sparse::Sell<T> host = sparse::to_sell<T>(matrix(), 32 * rows_a_thread, std::move(offsets));
        const SellOnGpu sell = {uploaded(host.offsets.data(), host.offsets.size()),
                                uploaded(host.column.data(), host.column.size()),
                                uploaded(host.value.data(), host.value.size())};
        for (int threads : {128, 256}) {
            list.push_back(sell_candidate<rows_a_thread, 1, Caching::retaining>(sell, threads));
            list.push_back(sell_candidate<rows_a_thread, 3, Caching::streaming>(sell, threads));
            list.push_back(sell_candidate<rows_a_thread, 3, Caching::retaining>(sell, threads));
            list.push_back(sell_candidate<rows_a_thread, 9, Caching::streaming>(sell, threads));
            list.push_back(sell_candidate<rows_a_thread, 9, Caching::retaining>(sell, threads));
        }
    }

    struct SellOnGpu {
        std::shared_ptr<DeviceArray<std::int64_t>> offsets;
        std::shared_ptr<DeviceArray<int>> columns;
        std::shared_ptr<DeviceArray<T>> values;
    };

    template <int rows_a_thread, int unroll, Caching caching>
    Candidate sell_candidate(const SellOnGpu& sell, int threads) {
        const SellView<T> a = {matrix().rows, sell.offsets->data(), sell.columns->data(),
                               sell.values->data()};
        const T* const x = x_->data();
        T* const y = y_.data();
        const std::string text = std::to_string(32 * rows_a_thread) + " rows a slice, " +
                                 std::to_string(unroll) + " loads ahead, " + std::to_string(threads) +
                                 " threads, " + text_of(caching);
        // `sell` is captured so that the matrix exists as long as the configuration.
        return {text, [sell, a, x, y, threads](const Stream& stream) {
                    const std::int64_t all =
                        (static_cast<std::int64_t>(a.rows) + rows_a_thread - 1) / rows_a_thread;
                    sell_kernel<T, rows_a_thread, unroll, caching>
                        <<<blocks_for(all, threads), static_cast<unsigned>(threads), 0, stream.get()>>>(a, x,
                                                                                                        y);
                    TENKEN_CUDA(cudaGetLastError());
                }};
    }

    const Problem& problem_;
    const Stream& stream_;
    std::shared_ptr<DeviceArray<int>> offsets_;
    std::shared_ptr<DeviceArray<int>> columns_;
    std::shared_ptr<DeviceArray<T>> values_;
    std::shared_ptr<DeviceArray<T>> x_;
    DeviceArray<T> y_;
    std::map<int, FlowTiles> flow_tiles_;  ///< by entries per tile
};

}  // namespace

}  // namespace spmv
