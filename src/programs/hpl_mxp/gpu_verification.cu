// Verification of the factors on a GPU: sums of A by groups of columns compared with L U.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "lib/base/clock.h"
#include "programs/hpl_mxp/gpu_engine_class.h"
#include "programs/hpl_mxp/verify_kernels.cuh"

namespace mxp {

FactorError GpuEngine::factor_error(const Matrix& matrix, lu::Ranks& ranks) {
    const std::int64_t groups = rows_ / gpu_tile;
    const FactorBound bound = {format_of(choices_.low).unit_roundoff(),
                               choices_.tf32_panels ? 1.0 / 1024 : 1.0 / 8388608,  // both truncated
                               static_cast<double>(groups), matrix.diagonal, static_cast<double>(gpu_tile)};
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
        factor_error_kernel<<<dim3(blocks_for(matrix.n, threads), static_cast<unsigned>(here)), threads, 0,
                              stream>>>(matrix, rows_, first, w.data(), q_beside.data(), z.data(),
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

double GpuEngine::bound_at(std::int64_t row, std::int64_t group) {
    float value = 0;
    TENKEN_CUDA(
        cudaMemcpy(&value, bounds_->data() + group * rows_ + row, sizeof value, cudaMemcpyDeviceToHost));
    return static_cast<double>(value);
}

void GpuEngine::spoil(std::int64_t row, std::int64_t column, double change) {
    if (!distribution_.columns.owns(column)) return;
    float* const victim = at(row, distribution_.columns.below(column));
    float value = 0;
    TENKEN_CUDA(cudaMemcpy(&value, victim, sizeof value, cudaMemcpyDeviceToHost));
    value = static_cast<float>(static_cast<double>(value) + change);
    TENKEN_CUDA(cudaMemcpy(victim, &value, sizeof value, cudaMemcpyHostToDevice));
}

void GpuEngine::add_lower(std::int64_t column, std::int64_t first_group, std::int64_t groups,
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
        TENKEN_CUBLAS(cublasSgemm(update_.blas.get(), CUBLAS_OP_N, CUBLAS_OP_N, static_cast<int>(rows),
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

}  // namespace mxp
