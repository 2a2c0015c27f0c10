// The kernel of the formulations in CUDA: a thread marches up a column of cells. Each plane that it reads
// completes the sum of the cell below, continues that of the current cell and starts that of the cell above:
// nine values read for 27.
#pragma once

#include <cuda_runtime.h>

#include "lib/cuda/check.h"
#include "programs/stencil_forms/form.h"

namespace stencil_forms {

constexpr unsigned column_x = 32;
constexpr unsigned column_y = 8;
constexpr long column_planes = 32;

static __global__ void __launch_bounds__(column_x* column_y)
    column_kernel(Grid grid, Coefficients<double> c, const double* __restrict__ now,
                  double* __restrict__ next, long begin, long end) {
    const long x = 1 + blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x;
    const long y = 1 + blockIdx.y * static_cast<long>(blockDim.y) + threadIdx.y;
    if (x >= grid.nx - 1 || y >= grid.ny - 1) return;
    const long row = grid.nx;
    const long plane = row * grid.ny;
    const long first = begin + blockIdx.z * column_planes;
    const long last = first + column_planes < end ? first + column_planes : end;
    const double* from = now + (first - 1) * plane + y * row + x;
    const auto at = [&](int dy, int dx) { return from[dy * row + dx]; };
    double mine = stencil::add_plane<27, -1>(c, at, 0.0);
    from += plane;
    mine = stencil::add_plane<27, 0>(c, at, mine);
    double above = stencil::add_plane<27, -1>(c, at, 0.0);
    for (long z = first; z < last; ++z) {
        from += plane;
        next[z * plane + y * row + x] = stencil::add_plane<27, 1>(c, at, mine);
        mine = stencil::add_plane<27, 0>(c, at, above);
        above = stencil::add_plane<27, -1>(c, at, 0.0);
    }
}

/// Enqueues a step of planes [begin, end) on the current GPU.
inline void launch_columns(const Grid& grid, const Coefficients<double>& c, const double* now, double* next,
                           long begin, long end, cudaStream_t stream) {
    if (begin >= end) return;
    const auto blocks = [](long items, long each) {
        return static_cast<unsigned>((items + each - 1) / each);
    };
    const dim3 size(blocks(grid.nx - 2, column_x), blocks(grid.ny - 2, column_y),
                    blocks(end - begin, column_planes));
    column_kernel<<<size, dim3(column_x, column_y), 0, stream>>>(grid, c, now, next, begin, end);
    TENKEN_CUDA(cudaGetLastError());
}

}  // namespace stencil_forms
