#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "programs/hpl_mxp/gpu_engine.h"
#include "programs/hpl_mxp/gpu_lane.h"
#include "programs/hpl_mxp/kernels.cuh"

namespace mxp {

namespace {

/// Groups of columns that verification does at a time.
constexpr std::int64_t groups_at_once = 64;
/// Rows and columns of the tile that Broken::lost_tile loses.
constexpr std::int64_t lost = 128;
class GpuEngine : public Engine {
  public:
    GpuEngine(std::int64_t n, std::int64_t nb, lu::Ranks& ranks, const GpuChoices& choices,
              lu::Communicator* communicator)
        : ranks_(ranks),
          choices_(choices),
          communicator_(communicator),
          n_(n),
          distribution_(padded(n), padded(n), nb, 1, ranks.size(), 0, ranks.rank()),
          sizes_(n, nb, distribution_.local_columns),
          rows_(sizes_.rows),
          ld_(sizes_.ld),
          a_(size(std::max<std::int64_t>(sizes_.a, 1))),
          inverse_l_(size(std::max<std::int64_t>(sizes_.inverses, 1))),
          inverse_u_(size(std::max<std::int64_t>(sizes_.inverses, 1))),
          update_(Stream::Priority::normal, sizes_.temporary_update, sizes_.low_update),
          panel_(Stream::Priority::high, sizes_.temporary_panel, sizes_.low_panel),
          slots_{DeviceArray<char>(size(sizes_.slot_bytes)), DeviceArray<char>(size(sizes_.slot_bytes))},
          fp8_l_{DeviceArray<unsigned char>(fp8(sizes_.slot_low)),
                 DeviceArray<unsigned char>(fp8(sizes_.slot_low))},
          fp8_u_update_(fp8(sizes_.low_update)),
          fp8_u_panel_(fp8(sizes_.low_panel)),
          states_(size(n + 1)),
          x_(size(n)),
          counts_(1),
          info_(size(rows_ / gpu_tile)) {
        for (cudaEvent_t& one : marks_) TENKEN_CUDA(cudaEventCreateWithFlags(&one, cudaEventDisableTiming));
        int device = 0;
        TENKEN_CUDA(cudaGetDevice(&device));
        TENKEN_CUDA(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, device));
        MXP_CUSOLVER(cusolverDnCreate(&solver_));
        MXP_CUSOLVER(cusolverDnSetStream(solver_, panel_.stream.get()));
        int floats = 0;
        MXP_CUSOLVER(cusolverDnSgetrf_bufferSize(solver_, gpu_tile, gpu_tile, a_.data(),
                                                 static_cast<int>(ld_), &floats));
        solver_work_.reset(new DeviceArray<float>(size(floats) + 1));
        if (choices.low == Low::fp8) {
            MXP_CUBLAS(cublasLtCreate(&library_));
            TENKEN_CUDA(cudaMemset(fp8_l_[0].data(), 0, fp8_l_[0].bytes()));
        }
    }

    ~GpuEngine() override {
        cudaDeviceSynchronize();
        for (cudaEvent_t one : marks_) cudaEventDestroy(one);
        if (solver_ != nullptr) cusolverDnDestroy(solver_);
        if (library_ != nullptr) cublasLtDestroy(library_);
    }

    const lu::Distribution& distribution() const override { return distribution_; }
    std::int64_t end_of_columns() const override { return distribution_.local_columns; }
    std::int64_t tile() const override { return gpu_tile; }

    void generate(const Matrix& matrix) override {
        if (matrix.seed != matrix_.seed || matrix.n != matrix_.n) {
            std::vector<std::uint64_t> states(size(matrix.n + 1));
            for (std::int64_t j = 0; j <= matrix.n; ++j) states[size(j)] = column_state(matrix.seed, j);
            TENKEN_CUDA(cudaMemcpy(states_.data(), states.data(), states_.bytes(), cudaMemcpyHostToDevice));
        }
        matrix_ = matrix;
        scale_l_ = static_cast<float>(scale_l(matrix.diagonal));
        bounds_.reset();
        converted_ = 0;
        cudaStream_t const stream = update_.stream.get();
        TENKEN_CUDA(cudaMemsetAsync(counts_.data(), 0, counts_.bytes(), stream));
        TENKEN_CUDA(cudaMemsetAsync(info_.data(), 0, info_.bytes(), stream));
        if (distribution_.local_columns > 0) {
            const dim3 grid(
                blocks_for(rows_, threads * residual_rows),
                static_cast<unsigned>(std::min<std::int64_t>(distribution_.local_columns, 32768)));
            generate_kernel<<<grid, threads, 0, stream>>>(a_.data(), ld_, rows_, distribution_.local_columns,
                                                          distribution_.columns, matrix);
            TENKEN_CUDA(cudaGetLastError());
        }
        update_.stream.synchronize();
    }

    void breaks(Broken broken, const lu::Step& step) override {
        broken_ = broken;
        broken_at_ = step.begin;
    }

    /// In A itself; what others need of it goes into the slot: L below the triangles in 16 bits, and the
    /// inverses of the triangles of L.
    void factor_panel(int slot, const lu::Step& step) override {
        const std::int64_t first = distribution_.columns.below(step.begin);
        factor_tiles(slot, step, first, 0, step.width / gpu_tile);
        if (broken_ != Broken::zero_l || step.begin != broken_at_ || step.end() >= rows_) return;
        cudaStream_t const stream = panel_.stream.get();
        const std::int64_t below = rows_ - step.end();
        TENKEN_CUDA(cudaMemset2DAsync(at(step.end(), first), size(ld_) * sizeof(float), 0,
                                      size(below) * sizeof(float), size(step.width), stream));
        TENKEN_CUDA(cudaMemset2DAsync(low_of(slot) + step.width, size(height(step)) * 2, 0, size(below) * 2,
                                      size(step.width), stream));
    }

    void broadcast_panel(int slot, const lu::Step& step, int root) override {
        // Inverses lie behind the panel of this step, so that it is one piece.
        const std::int64_t bytes = 2 * height(step) * step.width + 4 * step.width * gpu_tile;
        communicator_->broadcast(slots_[slot].data(), size(bytes), root, panel_.stream.get());
    }

    void ready_panel(int slot, const lu::Step& step) override {
        if (choices_.low != Low::fp8 || step.end() >= rows_) return;
        const std::int64_t below = rows_ - step.end();
        to_fp8_kernel<<<dim3(blocks_for(below, 32), blocks_for(step.width, 32)), threads, 0,
                        panel_.stream.get()>>>(low_of(slot) + step.width, height(step), below, step.width,
                                               fp8_l_[slot].data(), step.width, true, counts_.data());
        TENKEN_CUDA(cudaGetLastError());
        converted_ += static_cast<double>(below) * static_cast<double>(step.width);
    }

    void solve_rows(lu::Lane lane, int slot, const lu::Step& step, lu::Range columns) override {
        if (columns.empty()) return;
        LaneParts& parts = of(lane);
        solve_tiles(parts, slot, step, 0, step.width / gpu_tile, columns, parts.low.data());
        if (choices_.low != Low::fp8 || step.end() >= rows_) return;
        to_fp8_kernel<<<dim3(blocks_for(step.width, 32), grid_of(columns.size())), threads, 0,
                        parts.stream.get()>>>(parts.low.data(), step.width, step.width, columns.size(),
                                              fp8_u(lane).data(), step.width, false, counts_.data());
        TENKEN_CUDA(cudaGetLastError());
        converted_ += static_cast<double>(columns.size()) * static_cast<double>(step.width);
    }

    void multiply(lu::Lane lane, int slot, const lu::Step& step, lu::Range columns) override {
        const std::int64_t below = rows_ - step.end();
        if (below <= 0 || columns.empty() || broken_ == Broken::skip_updates) return;
        if (broken_ == Broken::skip_update && step.begin == broken_at_) return;
        LaneParts& parts = of(lane);
        // Persistent kernels of an update would leave the panel's chain of small kernels no multiprocessor.
        if (lane == lu::Lane::update) leave_multiprocessors(beside_ ? choices_.panel_multiprocessors : 0);
        float* const c = at(step.end(), columns.begin);
        const bool loses =
            broken_ == Broken::lost_tile && step.begin == broken_at_ && lane == lu::Lane::update;
        std::unique_ptr<DeviceArray<float>> kept;
        float* const corner = at(rows_ - lost, columns.end - lost);
        const std::size_t pitch = size(ld_) * sizeof(float);
        const std::size_t row_bytes = size(lost) * sizeof(float);
        if (loses) {
            kept.reset(new DeviceArray<float>(size(lost * lost)));
            TENKEN_CUDA(cudaMemcpy2DAsync(kept->data(), row_bytes, corner, pitch, row_bytes, size(lost),
                                          cudaMemcpyDeviceToDevice, parts.stream.get()));
        }
        if (choices_.low == Low::fp8) {
            multiply_fp8(parts, lane, slot, step, columns, c);
        } else {
            subtract(parts, below, columns.size(), step.width, low_of(slot) + step.width, height(step),
                     parts.low.data(), step.width, c);
        }
        if (!loses) return;
        TENKEN_CUDA(cudaMemcpy2DAsync(corner, pitch, kept->data(), row_bytes, row_bytes, size(lost),
                                      cudaMemcpyDeviceToDevice, parts.stream.get()));
        parts.stream.synchronize();
    }

    void mark(lu::Lane lane, int which) override {
        TENKEN_CUDA(cudaEventRecord(marks_[which], of(lane).stream.get()));
    }
    void wait(lu::Lane lane, int which) override {
        TENKEN_CUDA(cudaStreamWaitEvent(of(lane).stream.get(), marks_[which], 0));
    }
    int stamp(lu::Lane lane) override {
        if (used_ == stamps_.size()) stamps_.emplace_back();
        stamps_[used_].record(of(lane).stream);
        return static_cast<int>(used_++);
    }
    double seconds_between(int earlier, int later) override {
        return stamps_[static_cast<std::size_t>(later)].seconds_since(
            stamps_[static_cast<std::size_t>(earlier)]);
    }
    void forget_stamps() override { used_ = 0; }

    std::int64_t finish() override {
        update_.stream.synchronize();
        panel_.stream.synchronize();
        std::vector<int> info(info_.size());
        TENKEN_CUDA(cudaMemcpy(info.data(), info_.data(), info_.bytes(), cudaMemcpyDeviceToHost));
        for (std::size_t t = 0; t < info.size(); ++t)
            if (info[t] != 0) return static_cast<std::int64_t>(t) * gpu_tile + info[t] - 1;
        return -1;
    }

    std::vector<double> correction(lu::Ranks& ranks, const std::vector<double>& r) override {
        double largest = 0;
        for (double value : r) largest = std::max(largest, std::fabs(value));
        if (!(largest > 0)) return std::vector<double>(r.size(), 0.0);
        // Residuals become as small as 1e-16 of b: FP32 holds them where they are made about 1.
        std::vector<float> start(size(rows_), 0.0f);
        if (ranks.rank() == 0)
            for (std::size_t i = 0; i < r.size(); ++i) start[i] = static_cast<float>(r[i] / largest);
        if (!v_) {
            v_.reset(new DeviceArray<float>(size(rows_)));
            y_.reset(new DeviceArray<float>(size(rows_)));
        }
        cudaStream_t const stream = update_.stream.get();
        TENKEN_CUDA(cudaMemcpyAsync(v_->data(), start.data(), v_->bytes(), cudaMemcpyHostToDevice, stream));
        const std::vector<lu::Step> blocks = lu::plan_steps(rows_, distribution_.nb, 0, gpu_tile);
        for (const bool lower : {true, false}) {
            TENKEN_CUDA(cudaMemsetAsync(y_->data(), 0, y_->bytes(), stream));
            for (std::size_t b = 0; b < blocks.size(); ++b)
                solve_block(ranks, blocks[lower ? b : blocks.size() - 1 - b], lower);
            TENKEN_CUDA(
                cudaMemcpyAsync(v_->data(), y_->data(), v_->bytes(), cudaMemcpyDeviceToDevice, stream));
        }
        std::vector<float> found(size(rows_));
        TENKEN_CUDA(cudaMemcpyAsync(found.data(), v_->data(), v_->bytes(), cudaMemcpyDeviceToHost, stream));
        update_.stream.synchronize();
        std::vector<double> d(r.size());
        for (std::size_t i = 0; i < d.size(); ++i) d[i] = largest * static_cast<double>(found[i]);
        if (ranks.size() > 1) ranks.sum_in_row(d.data(), d.size());
        return d;
    }

    std::vector<double> residual(const Matrix& matrix, const std::vector<double>& x, std::int64_t begin,
                                 std::int64_t end, std::vector<double>* sums) override {
        const std::int64_t rows = end - begin;
        std::vector<double> r(size(std::max<std::int64_t>(rows, 0)));
        if (sums != nullptr) sums->assign(r.size(), 0.0);
        if (rows <= 0) return r;
        const std::int64_t parts = (matrix.n + residual_columns - 1) / residual_columns;
        if (!products_ || products_->size() < size(parts * rows)) {
            products_.reset();
            sums_.reset();
            products_.reset(new DeviceArray<double>(size(parts * rows)));
            sums_.reset(new DeviceArray<double>(size(parts * rows)));
            r_.reset(new DeviceArray<double>(size(rows)));
            row_sums_.reset(new DeviceArray<double>(size(rows)));
        }
        cudaStream_t const stream = update_.stream.get();
        TENKEN_CUDA(cudaMemcpyAsync(x_.data(), x.data(), x_.bytes(), cudaMemcpyHostToDevice, stream));
        const dim3 grid(blocks_for(rows, threads * residual_rows), static_cast<unsigned>(parts));
        if (sums != nullptr) {
            residual_kernel<true><<<grid, threads, 0, stream>>>(states_.data(), x_.data(), matrix.n, begin,
                                                                rows, products_->data(), sums_->data());
        } else {
            residual_kernel<false><<<grid, threads, 0, stream>>>(states_.data(), x_.data(), matrix.n, begin,
                                                                 rows, products_->data(), sums_->data());
        }
        TENKEN_CUDA(cudaGetLastError());
        residual_end_kernel<<<blocks_for(rows, threads), threads, 0, stream>>>(
            matrix, x_.data(), begin, rows, static_cast<int>(parts), products_->data(), sums_->data(),
            r_->data(), sums != nullptr ? row_sums_->data() : nullptr);
        TENKEN_CUDA(cudaGetLastError());
        const std::size_t bytes = r.size() * sizeof(double);
        TENKEN_CUDA(cudaMemcpyAsync(r.data(), r_->data(), bytes, cudaMemcpyDeviceToHost, stream));
        if (sums != nullptr)
            TENKEN_CUDA(
                cudaMemcpyAsync(sums->data(), row_sums_->data(), bytes, cudaMemcpyDeviceToHost, stream));
        update_.stream.synchronize();
        return r;
    }

    Conversions conversions() override {
        Counts counts = {0, 0};
        TENKEN_CUDA(cudaMemcpy(&counts, counts_.data(), sizeof counts, cudaMemcpyDeviceToHost));
        Conversions found;
        found.all = converted_;
        found.small = static_cast<double>(counts.small);
        found.overflowed = static_cast<double>(counts.overflowed);
        return found;
    }

    FactorError factor_error(const Matrix& matrix, lu::Ranks& ranks) override {
        const std::int64_t groups = rows_ / gpu_tile;
        const FactorBound bound = {format_of(choices_.low).unit_roundoff(),
                                   choices_.tf32_panels ? 1.0 / 1024 : 1.0 / 8388608,  // both cut off
                                   static_cast<double>(groups), matrix.diagonal,
                                   static_cast<double>(gpu_tile)};
        if (!bounds_) bounds_.reset(new DeviceArray<float>(size(rows_ * groups)));
        const std::size_t count = size(rows_ * groups_at_once);
        DeviceArray<float> w(count);
        DeviceArray<float> q(count);
        DeviceArray<float> q_beside(count);
        DeviceArray<float> z(count);
        DeviceArray<float> squares(count);
        DeviceArray<float> squares_panel(count);
        DeviceArray<float> l_squares(size(rows_ * gpu_tile));
        DeviceArray<Worst> worst(1);
        cudaStream_t const stream = update_.stream.get();
        TENKEN_CUDA(cudaMemsetAsync(worst.data(), 0, worst.bytes(), stream));
        for (std::int64_t first = 0; first < groups; first += groups_at_once) {
            const std::int64_t here = std::min(groups_at_once, groups - first);
            for (DeviceArray<float>* const one : {&w, &q, &q_beside, &z, &squares, &squares_panel})
                TENKEN_CUDA(cudaMemsetAsync(one->data(), 0, one->bytes(), stream));
            for (std::int64_t g = 0; g < here; ++g) {
                const std::int64_t column = (first + g) * gpu_tile;
                if (!distribution_.columns.owns(column)) continue;
                upper_kernel<<<blocks_for(column + gpu_tile, threads), threads, 0, stream>>>(
                    a_.data(), ld_, distribution_.columns.below(column), column, matrix.seed,
                    w.data() + g * rows_, q.data() + g * rows_, q_beside.data() + g * rows_);
                TENKEN_CUDA(cudaGetLastError());
            }
            sum_over_ranks(ranks, w, here);
            sum_over_ranks(ranks, q, here);
            sum_over_ranks(ranks, q_beside, here);
            for (std::int64_t column = 0; column < rows_; column += gpu_tile) {
                if (!distribution_.columns.owns(column)) continue;
                add_lower(column, first, here, w, q, z, squares, squares_panel, l_squares);
            }
            sum_over_ranks(ranks, z, here);
            sum_over_ranks(ranks, squares, here);
            sum_over_ranks(ranks, squares_panel, here);
            factor_error_kernel<<<dim3(blocks_for(matrix.n, threads), static_cast<unsigned>(here)), threads,
                                  0, stream>>>(matrix, rows_, first, w.data(), q_beside.data(), z.data(),
                                               squares.data(), squares_panel.data(), bound, bounds_->data(),
                                               worst.data());
            TENKEN_CUDA(cudaGetLastError());
        }
        Worst found = {0};
        TENKEN_CUDA(cudaMemcpyAsync(&found, worst.data(), sizeof found, cudaMemcpyDeviceToHost, stream));
        update_.stream.synchronize();
        FactorError error;
        const unsigned bits = static_cast<unsigned>(found.packed >> 32);
        float ratio = 0;
        std::memcpy(&ratio, &bits, sizeof ratio);
        error.ratio = ranks.largest({static_cast<double>(ratio)}).front();
        const std::int64_t place = static_cast<std::int64_t>(found.packed & 0xffffffffULL);
        error.row = place % rows_;
        error.group = place / rows_;
        error.bound = bound_at(error.row, error.group);
        return error;
    }

    double bound_at(std::int64_t row, std::int64_t group) override {
        float value = 0;
        TENKEN_CUDA(
            cudaMemcpy(&value, bounds_->data() + group * rows_ + row, sizeof value, cudaMemcpyDeviceToHost));
        return static_cast<double>(value);
    }

    void spoil(std::int64_t row, std::int64_t column, double change) override {
        if (!distribution_.columns.owns(column)) return;
        float* const victim = at(row, distribution_.columns.below(column));
        float value = 0;
        TENKEN_CUDA(cudaMemcpy(&value, victim, sizeof value, cudaMemcpyDeviceToHost));
        value = static_cast<float>(static_cast<double>(value) + change);
        TENKEN_CUDA(cudaMemcpy(victim, &value, sizeof value, cudaMemcpyHostToDevice));
    }

    std::vector<double> time_products(const Matrix& matrix, double heat_seconds, int repetitions,
                                      double& flops) override {
        generate(matrix);
        breaks(Broken::none, {0, 0});
        const lu::Step step = {0, std::min(distribution_.nb, rows_)};
        const lu::Range columns = {distribution_.columns.below(step.end()), distribution_.local_columns};
        const double below = static_cast<double>(rows_ - step.end());
        flops = columns.empty()
                    ? 0
                    : 2.0 * below * static_cast<double>(columns.size()) * static_cast<double>(step.width);
        if (distribution_.columns.owns(0)) factor_panel(0, step);
        if (ranks_.size() > 1) broadcast_panel(0, step, ranks_.at(0, distribution_.columns.owner(0)));
        ready_panel(0, step);
        finish();
        if (flops <= 0) return {};
        solve_rows(lu::Lane::update, 0, step, columns);
        beside_ = false;
        const auto product = [&] { multiply(lu::Lane::update, 0, step, columns); };
        tenken::warm_up(heat_seconds, [&] {
            product();
            update_.stream.synchronize();
        });
        std::vector<double> seconds;
        forget_stamps();
        // One after the other without a gap, as in the factorisation; each is timed by events.
        std::vector<int> stamps = {stamp(lu::Lane::update)};
        for (int i = 0; i < repetitions; ++i) {
            product();
            stamps.push_back(stamp(lu::Lane::update));
        }
        update_.stream.synchronize();
        beside_ = true;
        for (int i = 0; i < repetitions; ++i)
            seconds.push_back(seconds_between(stamps[static_cast<std::size_t>(i)],
                                              stamps[static_cast<std::size_t>(i) + 1]));
        return seconds;
    }

    void describe(tenken::Document& document) const override {
        int parts[3] = {0, 0, 0};
        cublasGetProperty(MAJOR_VERSION, &parts[0]);
        cublasGetProperty(MINOR_VERSION, &parts[1]);
        cublasGetProperty(PATCH_LEVEL, &parts[2]);
        document.build.libraries.emplace_back(
            "cuBLAS",
            std::to_string(parts[0]) + "." + std::to_string(parts[1]) + "." + std::to_string(parts[2]));
        document.path("update", choices_.low == Low::fp8
                                    ? "cublasLtMatmul, FP8 E4M3, sums carried over to FP32"
                                    : "cublasGemmEx N N, FP32 C column by column");
        document.path("panel", choices_.tf32_panels
                                   ? "recursive, products in 16 bits, inverted triangles of 512 "
                                     "by TF32"
                                   : "recursive, products in 16 bits, inverted triangles of 512 "
                                     "by FP32");
        document.path("triangles", "cusolverDnSgetrf without pivots");
        if (communicator_ != nullptr) document.path("communicator", communicator_->text());
    }

  private:
    void leave_multiprocessors(int count) {
        if (count == left_) return;
        left_ = count;
#if CUDART_VERSION >= 11080
        MXP_CUBLAS(cublasSetSmCountTarget(update_.blas, count == 0 ? 0 : multiprocessors_ - count));
#endif
    }

    std::size_t fp8(std::int64_t bytes) const { return choices_.low == Low::fp8 ? size(bytes) : 1; }
    std::int64_t height(const lu::Step& step) const { return rows_ - step.begin; }
    LaneParts& of(lu::Lane lane) { return lane == lu::Lane::update ? update_ : panel_; }
    DeviceArray<unsigned char>& fp8_u(lu::Lane lane) {
        return lane == lu::Lane::update ? fp8_u_update_ : fp8_u_panel_;
    }
    float* at(std::int64_t row, std::int64_t local_column) { return a_.data() + local_column * ld_ + row; }
    /// The panel of a slot: height(step) rows from step.begin on.
    unsigned short* low_of(int slot) { return reinterpret_cast<unsigned short*>(slots_[slot].data()); }
    float* inverse_of(int slot, const lu::Step& step, std::int64_t t) {
        return reinterpret_cast<float*>(slots_[slot].data() + 2 * height(step) * step.width) +
               t * gpu_tile * gpu_tile;
    }
    static unsigned grid_of(std::int64_t columns) {
        return static_cast<unsigned>(std::min<std::int64_t>((columns + 31) / 32, 65535));
    }
    std::int64_t valid(std::int64_t first, std::int64_t count) const {
        return std::max<std::int64_t>(0, std::min(count, n_ - first));
    }

    /// C -= L U / scales, both of 16 bits.
    void subtract(LaneParts& parts, std::int64_t m, std::int64_t n, std::int64_t k, const unsigned short* l,
                  std::int64_t l_ld, const unsigned short* u, std::int64_t u_ld, float* c) {
        const float minus = static_cast<float>(-1.0 / (static_cast<double>(scale_l_) * scale_u));
        const float one = 1;
        const cudaDataType_t type = choices_.low == Low::bf16 ? CUDA_R_16BF : CUDA_R_16F;
        MXP_CUBLAS(cublasGemmEx(parts.blas, CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(m),
                                static_cast<int>(n), static_cast<int>(k), &minus, l, type,
                                static_cast<int>(l_ld), u, type, static_cast<int>(u_ld), &one, c, CUDA_R_32F,
                                static_cast<int>(ld_), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    }

    void multiply_fp8(LaneParts& parts, lu::Lane lane, int slot, const lu::Step& step, lu::Range columns,
                      float* c) {
#if CUDART_VERSION >= 11080
        const auto m = static_cast<std::uint64_t>(rows_ - step.end());
        const auto n = static_cast<std::uint64_t>(columns.size());
        const auto k = static_cast<std::uint64_t>(step.width);
        const float minus = static_cast<float>(-1.0 / (static_cast<double>(scale_l_) * scale_u));
        const float one = 1;
        cublasLtMatmulDesc_t operation = nullptr;
        cublasLtMatrixLayout_t layouts[3] = {};
        cublasLtMatmulPreference_t preference = nullptr;
        cublasLtMatmulHeuristicResult_t found = {};
        const cublasOperation_t transposed = CUBLAS_OP_T;
        const std::size_t bytes = workspace_bytes;
        int count = 0;
        MXP_CUBLAS(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        MXP_CUBLAS(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                                  sizeof transposed));
        MXP_CUBLAS(cublasLtMatrixLayoutCreate(&layouts[0], CUDA_R_8F_E4M3, k, m, step.width));
        MXP_CUBLAS(cublasLtMatrixLayoutCreate(&layouts[1], CUDA_R_8F_E4M3, k, n, step.width));
        MXP_CUBLAS(cublasLtMatrixLayoutCreate(&layouts[2], CUDA_R_32F, m, n, ld_));
        MXP_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
        MXP_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                        &bytes, sizeof bytes));
        MXP_CUBLAS(cublasLtMatmulAlgoGetHeuristic(library_, operation, layouts[0], layouts[1], layouts[2],
                                                  layouts[2], preference, 1, &found, &count));
        if (count == 0)
            throw std::runtime_error("cuBLASLt has no FP8 product with sums in FP32 for this shape");
        MXP_CUBLAS(cublasLtMatmul(library_, operation, &minus, fp8_l_[slot].data(), layouts[0],
                                  fp8_u(lane).data(), layouts[1], &one, c, layouts[2], c, layouts[2],
                                  &found.algo, parts.workspace.data(), workspace_bytes, parts.stream.get()));
        cublasLtMatmulPreferenceDestroy(preference);
        for (cublasLtMatrixLayout_t layout : layouts) cublasLtMatrixLayoutDestroy(layout);
        cublasLtMatmulDescDestroy(operation);
#else
        (void)parts;
        (void)lane;
        (void)slot;
        (void)step;
        (void)columns;
        (void)c;
        throw std::runtime_error("FP8 needs CUDA 11.8");
#endif
    }

    /// temporary = inverse A or A inverse, m x n, where the inverse is of order 512.
    void apply_inverse(LaneParts& parts, bool from_left, std::int64_t m, std::int64_t n, const float* inverse,
                       const float* a) {
        const float one = 1;
        const float zero = 0;
        const float* const left = from_left ? inverse : a;
        const float* const right = from_left ? a : inverse;
        const std::int64_t left_ld = from_left ? gpu_tile : ld_;
        const std::int64_t right_ld = from_left ? ld_ : gpu_tile;
        MXP_CUBLAS(cublasGemmEx(
            parts.blas, CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(m), static_cast<int>(n),
            static_cast<int>(gpu_tile), &one, left, CUDA_R_32F, static_cast<int>(left_ld), right, CUDA_R_32F,
            static_cast<int>(right_ld), &zero, parts.temporary.data(), CUDA_R_32F, static_cast<int>(m),
            choices_.tf32_panels ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    }

    /// What apply_inverse() has left goes into A and, scaled and rounded, to `low`.
    void store(LaneParts& parts, std::int64_t m, std::int64_t n, float* a, unsigned short* low,
               std::int64_t low_ld, double scale, std::int64_t valid_rows, std::int64_t valid_columns) {
        const dim3 grid(blocks_for(m, 4 * threads), blocks_for(n, columns_per_thread));
        if (choices_.low == Low::bf16) {
            store_kernel<Bf16><<<grid, threads, 0, parts.stream.get()>>>(
                parts.temporary.data(), m, a, ld_, low, low_ld, m, n, static_cast<float>(scale), valid_rows,
                valid_columns, counts_.data());
        } else {
            store_kernel<Fp16><<<grid, threads, 0, parts.stream.get()>>>(
                parts.temporary.data(), m, a, ld_, low, low_ld, m, n, static_cast<float>(scale), valid_rows,
                valid_columns, counts_.data());
        }
        TENKEN_CUDA(cudaGetLastError());
        converted_ += static_cast<double>(valid_rows) * static_cast<double>(valid_columns);
    }

    /// Rows of the tiles [begin, end) of a panel become rows of U: with the panel's L in 16 bits, and the
    /// inverted triangles. `low` holds them from tile `begin` on.
    void solve_tiles(LaneParts& parts, int slot, const lu::Step& step, std::int64_t begin, std::int64_t end,
                     lu::Range columns, unsigned short* low) {
        const std::int64_t low_ld = (end - begin) * gpu_tile;
        const std::int64_t valid_columns = std::max<std::int64_t>(
            0, std::min(columns.size(), distribution_.columns.below(n_) - columns.begin));
        for (std::int64_t t = begin; t < end; ++t) {
            const std::int64_t row = step.begin + t * gpu_tile;
            float* const a = at(row, columns.begin);
            if (t > begin)
                subtract(parts, gpu_tile, columns.size(), (t - begin) * gpu_tile,
                         low_of(slot) + begin * gpu_tile * height(step) + t * gpu_tile, height(step), low,
                         low_ld, a);
            apply_inverse(parts, true, gpu_tile, columns.size(), inverse_of(slot, step, t), a);
            store(parts, gpu_tile, columns.size(), a, low + (t - begin) * gpu_tile, low_ld, scale_u,
                  valid(row, gpu_tile), valid_columns);
        }
    }

    /// Tiles [begin, end) of a panel whose first column is local column `first`: the left half, what it does
    /// to the right half, the right half.
    void factor_tiles(int slot, const lu::Step& step, std::int64_t first, std::int64_t begin,
                      std::int64_t end) {
        if (end - begin == 1) return factor_tile(slot, step, first, begin);
        const std::int64_t middle = (begin + end) / 2;
        factor_tiles(slot, step, first, begin, middle);
        const lu::Range right = {first + middle * gpu_tile, first + end * gpu_tile};
        solve_tiles(panel_, slot, step, begin, middle, right, panel_.low.data());
        const std::int64_t row = step.begin + middle * gpu_tile;
        subtract(panel_, rows_ - row, right.size(), (middle - begin) * gpu_tile,
                 low_of(slot) + begin * gpu_tile * height(step) + middle * gpu_tile, height(step),
                 panel_.low.data(), (middle - begin) * gpu_tile, at(row, right.begin));
        factor_tiles(slot, step, first, middle, end);
    }

    void factor_tile(int slot, const lu::Step& step, std::int64_t first, std::int64_t t) {
        cudaStream_t const stream = panel_.stream.get();
        const std::int64_t row = step.begin + t * gpu_tile;
        const std::int64_t column = first + t * gpu_tile;
        float* const triangle = at(row, column);
        MXP_CUSOLVER(cusolverDnSgetrf(solver_, gpu_tile, gpu_tile, triangle, static_cast<int>(ld_),
                                      solver_work_->data(), nullptr, info_.data() + row / gpu_tile));
        float* const inverse_l = inverse_of(slot, step, t);
        float* const inverse_u = inverse_u_.data() + column * gpu_tile;
        identity_kernel<<<blocks_for(gpu_tile * gpu_tile, threads), threads, 0, stream>>>(inverse_l,
                                                                                          inverse_u);
        TENKEN_CUDA(cudaGetLastError());
        const float one = 1;
        MXP_CUBLAS(cublasStrsm(panel_.blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                               CUBLAS_DIAG_UNIT, gpu_tile, gpu_tile, &one, triangle, static_cast<int>(ld_),
                               inverse_l, gpu_tile));
        MXP_CUBLAS(cublasStrsm(panel_.blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N,
                               CUBLAS_DIAG_NON_UNIT, gpu_tile, gpu_tile, &one, triangle,
                               static_cast<int>(ld_), inverse_u, gpu_tile));
        TENKEN_CUDA(cudaMemcpyAsync(inverse_l_.data() + column * gpu_tile, inverse_l,
                                    size(gpu_tile * gpu_tile) * sizeof(float), cudaMemcpyDeviceToDevice,
                                    stream));
        const std::int64_t below = rows_ - row - gpu_tile;
        if (below <= 0) return;
        apply_inverse(panel_, false, below, gpu_tile, inverse_u, triangle + gpu_tile);
        store(panel_, below, gpu_tile, triangle + gpu_tile,
              low_of(slot) + t * gpu_tile * height(step) + (t + 1) * gpu_tile, height(step),
              static_cast<double>(scale_l_), valid(row + gpu_tile, below), valid(row, gpu_tile));
    }

    /// v holds a part of every unknown's right-hand side in each process; their sum is the whole. What is
    /// solved goes to y of the owner of the columns.
    void solve_block(lu::Ranks& ranks, const lu::Step& block, bool lower) {
        cudaStream_t const stream = update_.stream.get();
        const bool owner = distribution_.columns.owns(block.begin);
        if (ranks.size() > 1) {
            std::vector<float> part(size(block.width));
            const std::size_t bytes = part.size() * sizeof(float);
            TENKEN_CUDA(cudaMemcpyAsync(part.data(), v_->data() + block.begin, bytes, cudaMemcpyDeviceToHost,
                                        stream));
            update_.stream.synchronize();
            std::vector<double> whole(part.begin(), part.end());
            ranks.sum_in_row(whole.data(), whole.size());
            if (!owner) return;
            for (std::size_t i = 0; i < part.size(); ++i) part[i] = static_cast<float>(whole[i]);
            TENKEN_CUDA(cudaMemcpyAsync(v_->data() + block.begin, part.data(), bytes, cudaMemcpyHostToDevice,
                                        stream));
            update_.stream.synchronize();
        }
        if (!owner) return;
        const std::int64_t tiles = block.width / gpu_tile;
        const float one = 1;
        const float minus = -1;
        const float zero = 0;
        for (std::int64_t step = 0; step < tiles; ++step) {
            const std::int64_t t = lower ? step : tiles - 1 - step;
            const std::int64_t row = block.begin + t * gpu_tile;
            const std::int64_t column = distribution_.columns.below(row);
            const float* const inverse = (lower ? inverse_l_ : inverse_u_).data() + column * gpu_tile;
            float* const y = y_->data() + row;
            MXP_CUBLAS(cublasSgemv(update_.blas, CUBLAS_OP_N, gpu_tile, gpu_tile, &one, inverse, gpu_tile,
                                   v_->data() + row, 1, &zero, y, 1));
            const std::int64_t begin = lower ? row + gpu_tile : 0;
            const std::int64_t end = lower ? rows_ : row;
            if (end <= begin) continue;
            MXP_CUBLAS(cublasSgemv(update_.blas, CUBLAS_OP_N, static_cast<int>(end - begin), gpu_tile, &minus,
                                   at(begin, column), static_cast<int>(ld_), y, 1, &one, v_->data() + begin,
                                   1));
        }
    }

    /// z += L w, squares += L^2 q, of 512 columns of L without their diagonal.
    void add_lower(std::int64_t column, std::int64_t first_group, std::int64_t groups,
                   const DeviceArray<float>& w, const DeviceArray<float>& q, DeviceArray<float>& z,
                   DeviceArray<float>& squares, DeviceArray<float>& squares_panel,
                   DeviceArray<float>& l_squares) {
        cudaStream_t const stream = update_.stream.get();
        const std::int64_t rows = rows_ - column;
        float* const l = panel_.temporary.data();  // the panel's lane is idle
        lower_kernel<<<dim3(blocks_for(rows, threads), gpu_tile), threads, 0, stream>>>(
            at(column, distribution_.columns.below(column)), ld_, rows, l, l_squares.data());
        TENKEN_CUDA(cudaGetLastError());
        const float one = 1;
        const auto multiply_add = [&](const float* left, const float* right, float* to, std::int64_t count) {
            MXP_CUBLAS(cublasSgemm(update_.blas, CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(rows),
                                   static_cast<int>(count), gpu_tile, &one, left, static_cast<int>(rows),
                                   right + column, static_cast<int>(rows_), &one, to + column,
                                   static_cast<int>(rows_)));
        };
        multiply_add(l, w.data(), z.data(), groups);
        multiply_add(l_squares.data(), q.data(), squares.data(), groups);
        const std::int64_t own = column / gpu_tile - first_group;
        if (own >= 0 && own < groups)
            multiply_add(l_squares.data(), q.data() + own * rows_, squares_panel.data() + own * rows_, 1);
    }

    void sum_over_ranks(lu::Ranks& ranks, DeviceArray<float>& values, std::int64_t groups) {
        if (ranks.size() == 1) return;
        const std::int64_t count = rows_ * groups;
        std::vector<float> part(size(count));
        update_.stream.synchronize();
        TENKEN_CUDA(
            cudaMemcpy(part.data(), values.data(), part.size() * sizeof(float), cudaMemcpyDeviceToHost));
        std::vector<double> whole(part.begin(), part.end());
        ranks.sum_in_row(whole.data(), whole.size());
        for (std::size_t i = 0; i < part.size(); ++i) part[i] = static_cast<float>(whole[i]);
        TENKEN_CUDA(
            cudaMemcpy(values.data(), part.data(), part.size() * sizeof(float), cudaMemcpyHostToDevice));
    }

    lu::Ranks& ranks_;
    GpuChoices choices_;
    lu::Communicator* communicator_;
    std::int64_t n_;
    lu::Distribution distribution_;
    Sizes sizes_;
    std::int64_t rows_;
    std::int64_t ld_;
    Matrix matrix_ = {0, 0, 0};
    float scale_l_ = 1;
    DeviceArray<float> a_;
    DeviceArray<float> inverse_l_;  ///< of the triangles of this process's columns
    DeviceArray<float> inverse_u_;
    LaneParts update_;
    LaneParts panel_;
    DeviceArray<char> slots_[2];
    DeviceArray<unsigned char> fp8_l_[2];
    DeviceArray<unsigned char> fp8_u_update_;
    DeviceArray<unsigned char> fp8_u_panel_;
    DeviceArray<std::uint64_t> states_;
    DeviceArray<double> x_;
    DeviceArray<Counts> counts_;
    DeviceArray<int> info_;  ///< of the triangles, by cuSOLVER
    cusolverDnHandle_t solver_ = nullptr;
    std::unique_ptr<DeviceArray<float>> solver_work_;
    cublasLtHandle_t library_ = nullptr;
    std::unique_ptr<DeviceArray<float>> v_;
    std::unique_ptr<DeviceArray<float>> y_;
    std::unique_ptr<DeviceArray<double>> products_;
    std::unique_ptr<DeviceArray<double>> sums_;
    std::unique_ptr<DeviceArray<double>> r_;
    std::unique_ptr<DeviceArray<double>> row_sums_;
    std::unique_ptr<DeviceArray<float>> bounds_;
    double converted_ = 0;
    int multiprocessors_ = 1;
    int left_ = 0;         ///< multiprocessors that updates leave to the panel
    bool beside_ = false;  ///< whether a panel is factorised beside the updates
    Broken broken_ = Broken::none;
    std::int64_t broken_at_ = -1;
    cudaEvent_t marks_[marks] = {};
    std::vector<tenken::cuda::Event> stamps_;
    std::size_t used_ = 0;
};

}  // namespace

std::uint64_t gpu_bytes(std::int64_t n, std::int64_t nb, int processes, Low low) {
    const lu::Distribution first(padded(n), padded(n), nb, 1, processes, 0, 0);  // has the most columns
    const Sizes sizes(n, nb, first.local_columns);
    const std::int64_t groups = sizes.rows / gpu_tile;
    const std::int64_t parts = (n + residual_columns - 1) / residual_columns;
    std::int64_t bytes = 4 * (sizes.a + 2 * sizes.inverses + sizes.temporary_update + sizes.temporary_panel) +
                         2 * (sizes.low_update + sizes.low_panel) + 2 * sizes.slot_bytes +
                         16 * parts * sizes.rows + 64 * sizes.rows;
    if (low == Low::fp8) bytes += 2 * sizes.slot_low + sizes.low_update + sizes.low_panel;
    // of verification
    bytes += 4 * (6 * sizes.rows * groups_at_once + sizes.rows * gpu_tile + sizes.rows * groups);
    return static_cast<std::uint64_t>(bytes) + 2 * workspace_bytes + (std::uint64_t{512} << 20);  // libraries
}

std::unique_ptr<Engine> make_gpu_engine(std::int64_t n, std::int64_t nb, lu::Ranks& ranks,
                                        const GpuChoices& choices, lu::Communicator* communicator) {
    unsetenv("CUBLAS_EMULATE_SINGLE_PRECISION");  // would compute FP32 from other formats
    return std::unique_ptr<Engine>(new GpuEngine(n, nb, ranks, choices, communicator));
}

}  // namespace mxp
