// Himeno on the host: the rows of a plane are distributed over threads; each row is one vector loop.
#include <array>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/copy_values.h"
#include "programs/himeno/solver.h"

namespace himeno {

namespace {

/// One row. The pointers are local to the function, so that the compiler can exclude aliasing and
/// vectorise.
float step_row(const std::array<const float*, coefficients>& pointers, const float* __restrict__ from,
               float* __restrict__ to, long first, long line, long plane) {
    const float* __restrict__ const c_a0 = pointers[a0] + first;
    const float* __restrict__ const c_a1 = pointers[a1] + first;
    const float* __restrict__ const c_a2 = pointers[a2] + first;
    const float* __restrict__ const c_a3 = pointers[a3] + first;
    const float* __restrict__ const c_b0 = pointers[b0] + first;
    const float* __restrict__ const c_b1 = pointers[b1] + first;
    const float* __restrict__ const c_b2 = pointers[b2] + first;
    const float* __restrict__ const c_c0 = pointers[c0] + first;
    const float* __restrict__ const c_c1 = pointers[c1] + first;
    const float* __restrict__ const c_c2 = pointers[c2] + first;
    const float* __restrict__ const c_wrk1 = pointers[wrk1] + first;
    const float* __restrict__ const c_bnd = pointers[bnd] + first;
    const float* __restrict__ const before = from + first;
    float* __restrict__ const after = to + first;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (long k = 1; k < line - 1; ++k) {
        const float values[coefficients] = {c_a0[k], c_a1[k], c_a2[k], c_a3[k], c_b0[k],   c_b1[k],
                                            c_b2[k], c_c0[k], c_c1[k], c_c2[k], c_wrk1[k], c_bnd[k]};
        const float ss = correction<float>(
            [&](int n) { return values[n]; },
            [&](int di, int dj, int dk) { return before[k + di * plane + dj * line + dk]; });
        sum += ss * ss;
        after[k] = before[k] + omega * ss;
    }
    return sum;
}

class HostSolver : public Solver {
  public:
    explicit HostSolver(const Grid& grid) : grid_(grid) {
        for (tenken::Buffer& array : owners_) array = tenken::allocate_pageable(grid.cells() / 2 + 1);
        for (std::size_t n = 0; n < owners_.size(); ++n)
            arrays_[n] = reinterpret_cast<float*>(owners_[n].get());
    }

    tenken::Subject subject() const override { return tenken::Subject::host(); }
    const char* clock() const override { return "host"; }

    double fill(Data data) override {
        refill(data);
        return 0;
    }

    void refill(Data data) override {
        // In the rows that the threads process later: first touch.
#pragma omp parallel for collapse(2) schedule(static)
        for (int i = 0; i < grid_.ni; ++i) {
            for (int j = 0; j < grid_.nj; ++j) {
                const std::size_t first = row(i, j);
                for (int n = 0; n < arrays; ++n) {
                    for (std::size_t cell = first; cell < first + static_cast<std::size_t>(grid_.nk);
                         ++cell) {
                        arrays_[static_cast<std::size_t>(n)][cell] =
                            value_at(n < p ? n : p, data, grid_, cell);
                    }
                }
            }
        }
    }

    Timing iterate(long iterations, long samples) override {
        Timing timing;
        timing.stride = (iterations + samples - 1) / samples;
        const double start = tenken::now_seconds();
        double begin = start;
        for (long i = 1; i <= iterations; ++i) {
            timing.gosa.push_back(step());
            if (i % timing.stride != 0) continue;
            const double now = tenken::now_seconds();
            timing.seconds.push_back(now - begin);
            begin = now;
        }
        timing.total_seconds = tenken::now_seconds() - start;
        return timing;
    }

    double fetch(float* pressure) override {
        const float* const from = arrays_[p];
        const auto cells = static_cast<long>(grid_.cells());
#pragma omp parallel for schedule(static)
        for (long cell = 0; cell < cells; ++cell) pressure[cell] = from[cell];
        return 0;
    }

  private:
    std::array<const float*, coefficients> coefficient_pointers() const {
        std::array<const float*, coefficients> pointers;
        for (std::size_t n = 0; n < pointers.size(); ++n) pointers[n] = arrays_[n];
        return pointers;
    }

    std::size_t row(int i, int j) const {
        return static_cast<std::size_t>(i) * grid_.plane() +
               static_cast<std::size_t>(j) * static_cast<std::size_t>(grid_.nk);
    }

    double step() {
        const float* const from = arrays_[p];
        float* const to = arrays_[p + 1];
        const auto plane = static_cast<long>(grid_.plane());
        const auto line = static_cast<long>(grid_.nk);
        const std::array<const float*, coefficients> pointers = coefficient_pointers();
        double gosa = 0;
#pragma omp parallel for collapse(2) schedule(static) reduction(+ : gosa)
        for (int i = 1; i < grid_.ni - 1; ++i) {
            for (int j = 1; j < grid_.nj - 1; ++j) {
                const float sum = step_row(pointers, from, to, static_cast<long>(row(i, j)), line, plane);
                gosa += static_cast<double>(sum);
            }
        }
        std::swap(arrays_[p], arrays_[p + 1]);
        return gosa;
    }

    Grid grid_;
    std::array<tenken::Buffer, arrays> owners_;
    std::array<float*, arrays> arrays_;
};

}  // namespace

std::unique_ptr<Solver> make_host_solver(const Grid& grid) {
    return std::unique_ptr<Solver>(new HostSolver(grid));
}

}  // namespace himeno
