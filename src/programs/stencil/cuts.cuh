// Decomposition of the kernels' work into threads and blocks: the candidates, the best known first.
#pragma once

#include <string>
#include <vector>

#include "lib/cuda/check.h"
#include "programs/stencil/kernels.cuh"

namespace stencil {

/// One cut of one kernel.
template <typename T>
struct Cut {
    int rows;  ///< per thread
    int warps_x;
    int warps_y;
    int unrolled;  ///< planes per iteration of the loop
    int width;     ///< cells written by a block
    int height;
    std::size_t shared;
    void (*launch)(const Cut& cut, dim3 blocks, cudaStream_t stream, const T* from, T* to, const View& view,
                   const Coefficients<T>& coefficients, const Work& work, int low, int high);

    dim3 threads() const { return dim3(static_cast<unsigned>(32 * warps_x), static_cast<unsigned>(warps_y)); }
    /// "5/2x2/2": rows, warps and unrolled planes.
    std::string name() const {
        return std::to_string(rows) + "/" + std::to_string(warps_x) + "x" + std::to_string(warps_y) + "/" +
               std::to_string(unrolled);
    }
    std::string text() const {
        return std::to_string(rows) + " rows a thread, blocks of " + std::to_string(warps_x) + " x " +
               std::to_string(warps_y) + " warps, " + std::to_string(unrolled) + " planes unrolled";
    }
};

template <typename T, int points, int rows, int warps_x, int warps_y, int unrolled>
Cut<T> one_step() {
    constexpr int n = Pack<T>::cells;
    return {rows,
            warps_x,
            warps_y,
            unrolled,
            32 * warps_x * n,
            rows * warps_y,
            0,
            [](const Cut<T>& cut, dim3 blocks, cudaStream_t stream, const T* from, T* to, const View& view,
               const Coefficients<T>& coefficients, const Work& work, int, int) {
                step_kernel<T, points, rows, warps_x, warps_y, unrolled>
                    <<<blocks, cut.threads(), 0, stream>>>(from, to, view, coefficients, work);
            }};
}

template <typename T, int points, int rows, int warps_x, int warps_y>
Cut<T> two_steps() {
    typedef Tile<T, rows, warps_x, warps_y> K;
    return {rows,
            warps_x,
            warps_y,
            2,
            K::step_x,
            K::step_y,
            (stages + 2) * K::elements * sizeof(T),
            [](const Cut<T>& cut, dim3 blocks, cudaStream_t stream, const T* from, T* to, const View& view,
               const Coefficients<T>& coefficients, const Work& work, int low, int high) {
                two_steps_kernel<T, points, rows, warps_x, warps_y>
                    <<<blocks, cut.threads(), cut.shared, stream>>>(from, to, view, coefficients, work, low,
                                                                    high);
            }};
}

/// The decompositions of a pass of that many steps.
template <typename T, int points>
const std::vector<Cut<T>>& cuts(int steps) {
    static const std::vector<Cut<T>> one = {
        one_step<T, points, 5, 2, 2, 2>(), one_step<T, points, 2, 2, 2, 1>(),
        one_step<T, points, 3, 2, 2, 1>(), one_step<T, points, 4, 2, 2, 1>(),
        one_step<T, points, 5, 2, 2, 1>(), one_step<T, points, 2, 2, 4, 1>(),
        one_step<T, points, 2, 4, 2, 1>(), one_step<T, points, 3, 4, 1, 1>()};
    static const std::vector<Cut<T>> two = {two_steps<T, points, 2, 1, 8>(), two_steps<T, points, 2, 1, 6>()};
    return steps == 1 ? one : two;
}

}  // namespace stencil
