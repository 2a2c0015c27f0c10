// The factorisation on a GPU: panels, rows of U, updates in the low formats.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "lib/base/clock.h"
#include "programs/hpl_mxp/factor_kernels.cuh"
#include "programs/hpl_mxp/gpu_engine_class.h"

namespace mxp {

namespace {

/// Rows and columns of the tile omitted by Broken::lost_tile.
constexpr std::int64_t lost = 128;
/// Columns of the trial products, and how often their rows are halved.
constexpr std::int64_t trial_columns = 16384;
constexpr int trial_sizes = 3;

}  // namespace

void GpuEngine::generate(const Matrix& matrix) {
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
        const dim3 grid(blocks_for(rows_, threads * residual_rows),
                        static_cast<unsigned>(std::min<std::int64_t>(distribution_.local_columns, 32768)));
        generate_kernel<<<grid, threads, 0, stream>>>(a_.data(), ld_, rows_, distribution_.local_columns,
                                                      distribution_.columns, matrix);
        TENKEN_CUDA(cudaGetLastError());
    }
    update_.stream.synchronize();
}

void GpuEngine::breaks(Broken broken, const lu::Step& step) {
    broken_ = broken;
    broken_at_ = step.begin;
}

void GpuEngine::factor_panel(int slot, const lu::Step& step) {
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

void GpuEngine::broadcast_panel(int slot, const lu::Step& step, int root) {
    // Inverses follow the panel of this step, so that it is contiguous.
    const std::int64_t bytes = 2 * height(step) * step.width + 4 * step.width * gpu_tile;
    communicator_->broadcast(slots_[slot].data(), size(bytes), root, panel_.stream.get());
}

void GpuEngine::ready_panel(int slot, const lu::Step& step) {
    if (choices_.low != Low::fp8 || step.end() >= rows_) return;
    const std::int64_t below = rows_ - step.end();
    to_fp8_kernel<<<dim3(blocks_for(below, 32), blocks_for(step.width, 32)), threads, 0,
                    panel_.stream.get()>>>(low_of(slot) + step.width, height(step), below, step.width,
                                           fp8_l_[slot].data(), step.width, true, counts_.data());
    TENKEN_CUDA(cudaGetLastError());
    converted_ += static_cast<double>(below) * static_cast<double>(step.width);
}

void GpuEngine::solve_rows(lu::Lane lane, int slot, const lu::Step& step, lu::Range columns) {
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

void GpuEngine::multiply(lu::Lane lane, int slot, const lu::Step& step, lu::Range columns) {
    const std::int64_t below = rows_ - step.end();
    if (below <= 0 || columns.empty() || broken_ == Broken::skip_updates) return;
    if (broken_ == Broken::skip_update && step.begin == broken_at_) return;
    LaneParts& parts = of(lane);
    // Persistent kernels of an update would leave no multiprocessor for the panel's chain of small kernels.
    if (lane == lu::Lane::update)
        leave_multiprocessors(
            beside_ ? panel_share(choices_.panel_multiprocessors, below, ranks_.size(), multiprocessors_)
                    : 0);
    float* const c = at(step.end(), columns.begin);
    const bool loses = broken_ == Broken::lost_tile && step.begin == broken_at_ && lane == lu::Lane::update;
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

Conversions GpuEngine::conversions() {
    Counts counts = {0, 0};
    TENKEN_CUDA(cudaMemcpy(&counts, counts_.data(), sizeof counts, cudaMemcpyDeviceToHost));
    Conversions found;
    found.all = converted_;
    found.small = static_cast<double>(counts.small);
    found.overflowed = static_cast<double>(counts.overflowed);
    return found;
}

std::vector<double> GpuEngine::time_products(const Matrix& matrix, double heat_seconds, int repetitions,
                                             double& flops) {
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
    const auto product = [&] { multiply(lu::Lane::update, 0, step, columns); };
    tenken::warm_up(heat_seconds, [&] {
        product();
        update_.stream.synchronize();
    });
    choose_products(step, columns);
    std::vector<double> seconds;
    forget_stamps();
    // Back to back, as in the factorisation; each is timed by events.
    std::vector<int> stamps = {stamp(lu::Lane::update)};
    for (int i = 0; i < repetitions; ++i) {
        product();
        stamps.push_back(stamp(lu::Lane::update));
    }
    update_.stream.synchronize();
    beside_ = true;
    for (int i = 0; i < repetitions; ++i)
        seconds.push_back(
            seconds_between(stamps[static_cast<std::size_t>(i)], stamps[static_cast<std::size_t>(i) + 1]));
    return seconds;
}

void GpuEngine::describe(tenken::Document& document) const {
    document.build.libraries.emplace_back("cuBLAS", tenken::cuda::library_version(cublasGetProperty));
    document.path("update", choices_.low == Low::fp8 ? "cublasLtMatmul, FP8 E4M3, sums carried over to FP32"
                            : choices_.try_algorithms
                                ? "cublasLtMatmul N N, FP32 C column by column, algorithms by trial"
                                : "cublasGemmEx N N, FP32 C column by column");
    if (!products_by_trial_.text().empty()) document.path("algorithms", products_by_trial_.text());
    document.path("panel", choices_.tf32_panels ? "recursive, products in 16 bits, inverted triangles of 512 "
                                                  "by TF32"
                                                : "recursive, products in 16 bits, inverted triangles of 512 "
                                                  "by FP32");
    document.path("triangles", "cusolverDnSgetrf without pivots");
    if (communicator_ != nullptr) document.path("communicator", communicator_->text());
}

void GpuEngine::leave_multiprocessors(int count) {
    if (count == left_) return;
    left_ = count;
#if CUDART_VERSION >= 11080
    TENKEN_CUBLAS(cublasSetSmCountTarget(update_.blas.get(), count == 0 ? 0 : multiprocessors_ - count));
#endif
}

LowProduct GpuEngine::product_of(Low low, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t l_ld,
                                 std::int64_t u_ld, int multiprocessors) const {
    LowProduct product;
    product.kind = {low, m, k, multiprocessors};
    product.columns = n;
    product.l_ld = l_ld;
    product.u_ld = u_ld;
    product.c_ld = ld_;
    product.factor = static_cast<float>(-1.0 / (static_cast<double>(scale_l_) * scale_u));
    return product;
}

void GpuEngine::subtract(LaneParts& parts, std::int64_t m, std::int64_t n, std::int64_t k,
                         const unsigned short* l, std::int64_t l_ld, const unsigned short* u,
                         std::int64_t u_ld, float* c) {
    const LowProduct product = product_of(sixteen_bits(), m, n, k, l_ld, u_ld, kept());
    // Panels consist of products of other shapes, which were not tried.
    if (&parts == &update_ && products_by_trial_.multiply_as_tried(product, l, u, c, parts)) return;
    const float one = 1;
    const cudaDataType_t type = choices_.low == Low::bf16 ? CUDA_R_16BF : CUDA_R_16F;
    TENKEN_CUBLAS(cublasGemmEx(parts.blas.get(), CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(m),
                               static_cast<int>(n), static_cast<int>(k), &product.factor, l, type,
                               static_cast<int>(l_ld), u, type, static_cast<int>(u_ld), &one, c, CUDA_R_32F,
                               static_cast<int>(ld_), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void GpuEngine::multiply_fp8(LaneParts& parts, lu::Lane lane, int slot, const lu::Step& step,
                             lu::Range columns, float* c) {
    const LowProduct product = product_of(Low::fp8, rows_ - step.end(), columns.size(), step.width,
                                          step.width, step.width, lane == lu::Lane::update ? kept() : 0);
    const unsigned char* const l = fp8_l_[slot].data();
    const unsigned char* const u = fp8_u(lane).data();
    if (lane == lu::Lane::update && products_by_trial_.multiply_as_tried(product, l, u, c, parts)) return;
    if (!products_by_trial_.multiply_as_proposed(product, l, u, c, parts))
        throw std::runtime_error("cuBLASLt has no FP8 product with sums in FP32 for this shape");
}

void GpuEngine::choose_products(const lu::Step& step, lu::Range columns) {
    if (!choices_.try_algorithms) return;
    const int beside =
        choices_.panel_multiprocessors > 0 ? multiprocessors_ - choices_.panel_multiprocessors : 0;
    const std::int64_t below = rows_ - step.end();
    const std::int64_t n = std::min(columns.size(), trial_columns);
    const bool fp8 = choices_.low == Low::fp8;
    const void* const l = fp8 ? static_cast<const void*>(fp8_l_[0].data()) : low_of(0) + step.width;
    const void* const u = fp8 ? static_cast<const void*>(fp8_u_update_.data()) : update_.low.data();
    std::int64_t rows = below;
    for (int size = 0; size < trial_sizes && rows >= gpu_tile; ++size) {
        const LowProduct product = product_of(choices_.low, rows, n, step.width,
                                              fp8 ? step.width : height(step), step.width, beside);
        products_by_trial_.choose(product, l, u, at(step.end(), columns.begin), update_);
        if (size == 0 && beside != 0) {
            LowProduct alone = product;
            alone.kind.multiprocessors = 0;
            products_by_trial_.choose(alone, l, u, at(step.end(), columns.begin), update_);
        }
        rows = rows / 2 / gpu_tile * gpu_tile;
    }
    for (std::int64_t t = 1; t < step.width / gpu_tile; ++t)
        products_by_trial_.choose(
            product_of(sixteen_bits(), gpu_tile, n, t * gpu_tile, height(step), step.width, beside),
            low_of(0) + t * gpu_tile, update_.low.data(), at(t * gpu_tile, columns.begin), update_);
}

void GpuEngine::apply_inverse(LaneParts& parts, bool from_left, std::int64_t m, std::int64_t n,
                              const float* inverse, const float* a) {
    const float one = 1;
    const float zero = 0;
    const float* const left = from_left ? inverse : a;
    const float* const right = from_left ? a : inverse;
    const std::int64_t left_ld = from_left ? gpu_tile : ld_;
    const std::int64_t right_ld = from_left ? ld_ : gpu_tile;
    TENKEN_CUBLAS(cublasGemmEx(
        parts.blas.get(), CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(m), static_cast<int>(n),
        static_cast<int>(gpu_tile), &one, left, CUDA_R_32F, static_cast<int>(left_ld), right, CUDA_R_32F,
        static_cast<int>(right_ld), &zero, parts.temporary.data(), CUDA_R_32F, static_cast<int>(m),
        choices_.tf32_panels ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void GpuEngine::store(LaneParts& parts, std::int64_t m, std::int64_t n, float* a, unsigned short* low,
                      std::int64_t low_ld, double scale, std::int64_t valid_rows,
                      std::int64_t valid_columns) {
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

void GpuEngine::solve_tiles(LaneParts& parts, int slot, const lu::Step& step, std::int64_t begin,
                            std::int64_t end, lu::Range columns, unsigned short* low) {
    const std::int64_t low_ld = (end - begin) * gpu_tile;
    const std::int64_t valid_columns =
        std::max<std::int64_t>(0, std::min(columns.size(), distribution_.columns.below(n_) - columns.begin));
    for (std::int64_t t = begin; t < end; ++t) {
        const std::int64_t row = step.begin + t * gpu_tile;
        float* const a = at(row, columns.begin);
        if (t > begin)
            subtract(parts, gpu_tile, columns.size(), (t - begin) * gpu_tile,
                     low_of(slot) + begin * gpu_tile * height(step) + t * gpu_tile, height(step), low, low_ld,
                     a);
        apply_inverse(parts, true, gpu_tile, columns.size(), inverse_of(slot, step, t), a);
        store(parts, gpu_tile, columns.size(), a, low + (t - begin) * gpu_tile, low_ld, scale_u,
              valid(row, gpu_tile), valid_columns);
    }
}

void GpuEngine::factor_tiles(int slot, const lu::Step& step, std::int64_t first, std::int64_t begin,
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

void GpuEngine::factor_tile(int slot, const lu::Step& step, std::int64_t first, std::int64_t t) {
    cudaStream_t const stream = panel_.stream.get();
    const std::int64_t row = step.begin + t * gpu_tile;
    const std::int64_t column = first + t * gpu_tile;
    float* const triangle = at(row, column);
    TENKEN_CUSOLVER(cusolverDnSgetrf(solver_, gpu_tile, gpu_tile, triangle, static_cast<int>(ld_),
                                     solver_work_->data(), nullptr, info_.data() + row / gpu_tile));
    float* const inverse_l = inverse_of(slot, step, t);
    float* const inverse_u = inverse_u_.data() + column * gpu_tile;
    identity_kernel<<<blocks_for(gpu_tile * gpu_tile, threads), threads, 0, stream>>>(inverse_l, inverse_u);
    TENKEN_CUDA(cudaGetLastError());
    const float one = 1;
    TENKEN_CUBLAS(cublasStrsm(panel_.blas.get(), CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                              CUBLAS_DIAG_UNIT, gpu_tile, gpu_tile, &one, triangle, static_cast<int>(ld_),
                              inverse_l, gpu_tile));
    TENKEN_CUBLAS(cublasStrsm(panel_.blas.get(), CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_UPPER, CUBLAS_OP_N,
                              CUBLAS_DIAG_NON_UNIT, gpu_tile, gpu_tile, &one, triangle, static_cast<int>(ld_),
                              inverse_u, gpu_tile));
    TENKEN_CUDA(cudaMemcpyAsync(inverse_l_.data() + column * gpu_tile, inverse_l,
                                size(gpu_tile * gpu_tile) * sizeof(float), cudaMemcpyDeviceToDevice, stream));
    const std::int64_t below = rows_ - row - gpu_tile;
    if (below <= 0) return;
    apply_inverse(panel_, false, below, gpu_tile, inverse_u, triangle + gpu_tile);
    store(panel_, below, gpu_tile, triangle + gpu_tile,
          low_of(slot) + t * gpu_tile * height(step) + (t + 1) * gpu_tile, height(step),
          static_cast<double>(scale_l_), valid(row + gpu_tile, below), valid(row, gpu_tile));
}

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
    return static_cast<std::uint64_t>(bytes) + 2 * lu::workspace_bytes +
           (std::uint64_t{512} << 20);  // libraries
}

std::unique_ptr<Engine> make_gpu_engine(std::int64_t n, std::int64_t nb, lu::Ranks& ranks,
                                        const GpuChoices& choices, lu::Communicator* communicator) {
    unsetenv("CUBLAS_EMULATE_SINGLE_PRECISION");  // would compute FP32 from other formats
    const lu::Distribution mine(padded(n), padded(n), nb, 1, ranks.size(), 0, ranks.rank());
    return std::unique_ptr<Engine>(
        new GpuEngine(n, mine, Sizes(n, nb, mine.local_columns), ranks, choices, communicator));
}

}  // namespace mxp
