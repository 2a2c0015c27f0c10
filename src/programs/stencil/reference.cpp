#include "programs/stencil/reference.h"

#include <utility>

namespace stencil {

namespace {

template <int points, typename T>
void step(const Grid& grid, const Coefficients<T>& c, const std::vector<T>& from, std::vector<T>& to) {
    const long row = grid.nx;
    const long plane = row * grid.ny;
#pragma omp parallel for collapse(2) schedule(static)
    for (long z = 1; z < grid.nz - 1; ++z) {
        for (long y = 1; y < grid.ny - 1; ++y) {
            for (long x = 1; x < grid.nx - 1; ++x) {
                const T* const here = from.data() + z * plane + y * row + x;
                to[static_cast<std::size_t>(z * plane + y * row + x)] = stepped<points>(
                    c, [&](int dz, int dy, int dx) { return here[dz * plane + dy * row + dx]; });
            }
        }
    }
}

}  // namespace

template <typename T>
std::vector<T> reference(const Grid& grid, int points, long steps) {
    std::vector<T> from(static_cast<std::size_t>(grid.nx) * static_cast<std::size_t>(grid.ny) *
                        static_cast<std::size_t>(grid.nz));
    std::size_t cell = 0;
    for (long z = 0; z < grid.nz; ++z) {
        for (long y = 0; y < grid.ny; ++y) {
            for (long x = 0; x < grid.nx; ++x) from[cell++] = static_cast<T>(value_at(x, y, z));
        }
    }
    std::vector<T> to = from;
    const Coefficients<T> c = coefficients<T>(points);
    for (long s = 0; s < steps; ++s) {
        if (points == 27) {
            step<27>(grid, c, from, to);
        } else {
            step<7>(grid, c, from, to);
        }
        std::swap(from, to);
    }
    return from;
}

template std::vector<double> reference<double>(const Grid&, int, long);
template std::vector<float> reference<float>(const Grid&, int, long);

}  // namespace stencil
