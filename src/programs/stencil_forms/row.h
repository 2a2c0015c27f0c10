// One row of cells on the host: a separate function, so that the compiler can exclude aliasing of its
// pointers.
#pragma once

#include "programs/stencil_forms/form.h"

namespace stencil_forms {

inline void step_row(const Coefficients<double>& c, const double* __restrict__ from, double* __restrict__ to,
                     long row, long plane) {
#pragma omp simd
    for (long x = 1; x < row - 1; ++x) {
        to[x] = stencil::stepped<27>(
            c, [&](int dz, int dy, int dx) { return from[dz * plane + dy * row + dx + x]; });
    }
}

}  // namespace stencil_forms
