// Refinement on a GPU: residuals with A regenerated, corrections by the factors.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "lib/base/clock.h"
#include "programs/hpl_mxp/gpu_engine_class.h"
#include "programs/hpl_mxp/residual_kernels.cuh"

namespace mxp {

std::vector<double> GpuEngine::correction(lu::Ranks& ranks, const std::vector<double>& r) {
    double largest = 0;
    for (double value : r) largest = std::max(largest, std::fabs(value));
    if (!(largest > 0)) return std::vector<double>(r.size(), 0.0);
    // Residuals become as small as 1e-16 of b: FP32 represents them after scaling to about 1.
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
        TENKEN_CUDA(cudaMemcpyAsync(v_->data(), y_->data(), v_->bytes(), cudaMemcpyDeviceToDevice, stream));
    }
    std::vector<float> found(size(rows_));
    TENKEN_CUDA(cudaMemcpyAsync(found.data(), v_->data(), v_->bytes(), cudaMemcpyDeviceToHost, stream));
    update_.stream.synchronize();
    std::vector<double> d(r.size());
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = largest * static_cast<double>(found[i]);
    if (ranks.size() > 1) ranks.sum_in_row(d.data(), d.size());
    return d;
}

std::vector<double> GpuEngine::residual(const Matrix& matrix, const std::vector<double>& x,
                                        std::int64_t begin, std::int64_t end, std::vector<double>* sums) {
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
        residual_kernel<true><<<grid, threads, 0, stream>>>(states_.data(), x_.data(), matrix.n, begin, rows,
                                                            products_->data(), sums_->data());
    } else {
        residual_kernel<false><<<grid, threads, 0, stream>>>(states_.data(), x_.data(), matrix.n, begin, rows,
                                                             products_->data(), sums_->data());
    }
    TENKEN_CUDA(cudaGetLastError());
    residual_end_kernel<<<blocks_for(rows, threads), threads, 0, stream>>>(
        matrix, x_.data(), begin, rows, static_cast<int>(parts), products_->data(), sums_->data(), r_->data(),
        sums != nullptr ? row_sums_->data() : nullptr);
    TENKEN_CUDA(cudaGetLastError());
    const std::size_t bytes = r.size() * sizeof(double);
    TENKEN_CUDA(cudaMemcpyAsync(r.data(), r_->data(), bytes, cudaMemcpyDeviceToHost, stream));
    if (sums != nullptr)
        TENKEN_CUDA(cudaMemcpyAsync(sums->data(), row_sums_->data(), bytes, cudaMemcpyDeviceToHost, stream));
    update_.stream.synchronize();
    return r;
}

void GpuEngine::solve_block(lu::Ranks& ranks, const lu::Step& block, bool lower) {
    cudaStream_t const stream = update_.stream.get();
    const bool owner = distribution_.columns.owns(block.begin);
    if (ranks.size() > 1) {
        std::vector<float> part(size(block.width));
        const std::size_t bytes = part.size() * sizeof(float);
        TENKEN_CUDA(
            cudaMemcpyAsync(part.data(), v_->data() + block.begin, bytes, cudaMemcpyDeviceToHost, stream));
        update_.stream.synchronize();
        std::vector<double> whole(part.begin(), part.end());
        ranks.sum_in_row(whole.data(), whole.size());
        if (!owner) return;
        for (std::size_t i = 0; i < part.size(); ++i) part[i] = static_cast<float>(whole[i]);
        TENKEN_CUDA(
            cudaMemcpyAsync(v_->data() + block.begin, part.data(), bytes, cudaMemcpyHostToDevice, stream));
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
        TENKEN_CUBLAS(cublasSgemv(update_.blas.get(), CUBLAS_OP_N, gpu_tile, gpu_tile, &one, inverse,
                                  gpu_tile, v_->data() + row, 1, &zero, y, 1));
        const std::int64_t begin = lower ? row + gpu_tile : 0;
        const std::int64_t end = lower ? rows_ : row;
        if (end <= begin) continue;
        TENKEN_CUBLAS(cublasSgemv(update_.blas.get(), CUBLAS_OP_N, static_cast<int>(end - begin), gpu_tile,
                                  &minus, at(begin, column), static_cast<int>(ld_), y, 1, &one,
                                  v_->data() + begin, 1));
    }
}

void GpuEngine::sum_over_ranks(lu::Ranks& ranks, DeviceArray<float>& values, std::int64_t groups) {
    if (ranks.size() == 1) return;
    const std::int64_t count = rows_ * groups;
    std::vector<float> part(size(count));
    update_.stream.synchronize();
    TENKEN_CUDA(cudaMemcpy(part.data(), values.data(), part.size() * sizeof(float), cudaMemcpyDeviceToHost));
    std::vector<double> whole(part.begin(), part.end());
    ranks.sum_in_row(whole.data(), whole.size());
    for (std::size_t i = 0; i < part.size(); ++i) part[i] = static_cast<float>(whole[i]);
    TENKEN_CUDA(cudaMemcpy(values.data(), part.data(), part.size() * sizeof(float), cudaMemcpyHostToDevice));
}

}  // namespace mxp
