// The grid of the stencil, its decomposition into slabs, its data by formula, and the update of one cell.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#ifdef __CUDACC__
#define STENCIL_BOTH __host__ __device__
#else
#define STENCIL_BOTH
#endif

namespace stencil {

/// Cells in x, y and z; x is the fastest. The outermost cells are fixed, all others change in every step.
struct Grid {
    int nx;
    int ny;
    long nz;

    double inner_cells() const {
        return static_cast<double>(nx - 2) * static_cast<double>(ny - 2) * static_cast<double>(nz - 2);
    }
};

/// The planes of one part: [first, first + planes) of the grid.
struct Slab {
    long first;
    long planes;
    long end() const { return first + planes; }
    /// Cells of it that change.
    double inner_cells(const Grid& grid) const {
        const long fixed = (first == 0 ? 1 : 0) + (end() == grid.nz ? 1 : 0);
        return static_cast<double>(grid.nx - 2) * static_cast<double>(grid.ny - 2) *
               static_cast<double>(planes - fixed);
    }
};

/// Slab `part` of `parts`: if planes do not divide evenly, the first slabs have one more.
inline Slab slab_of(long nz, int part, int parts) {
    const long each = nz / parts;
    const long more = nz % parts;
    return {part * each + (part < more ? part : more), each + (part < more ? 1 : 0)};
}

/// Memory layout of the planes of one part: `halo` planes of the neighbour below, its own, `halo` above.
/// Rows are padded, so that each begins at a multiple of 128 bytes.
struct Layout {
    Grid grid;
    Slab slab;
    int halo;
    int pitch;  ///< elements from row to row

    STENCIL_BOTH std::size_t plane() const {
        return static_cast<std::size_t>(pitch) * static_cast<std::size_t>(grid.ny);
    }
    long planes() const { return slab.planes + 2 * halo; }
    std::size_t elements() const { return plane() * static_cast<std::size_t>(planes()); }
    /// Offset of plane z of the grid.
    STENCIL_BOTH long local(long z) const { return z - slab.first + halo; }
};

inline Layout layout_of(const Grid& grid, const Slab& slab, int halo, std::size_t element_bytes) {
    const auto per_line = static_cast<int>(128 / element_bytes);
    return {grid, slab, halo, (grid.nx + per_line - 1) / per_line * per_line};
}

/// Coefficients in the order of the sum: z, y, x ascending. Seven of them if only the faces count.
template <typename T>
struct Coefficients {
    T of[27];
};

/// All different, so that a wrong neighbour is detected; their sum is 1, so that values keep their magnitude.
template <typename T>
Coefficients<T> coefficients(int points) {
    Coefficients<T> c = {};
    double sum = 0;
    for (int i = 0; i < points; ++i) sum += 1 + (7 * i) % points;
    for (int i = 0; i < points; ++i) c.of[i] = static_cast<T>((1 + (7 * i) % points) / sum);
    return c;
}

/// Multiplications and additions of one cell. (The paper of 2020 counts 35 for 27 points.)
constexpr int flops_of_cell(int points) {
    return 2 * points - 1;
}

/// Relative error that `steps` may add to a cell: all terms are positive, and each step adds at most the
/// rounding errors of its own operations, two for each of its points.
template <typename T>
constexpr double rounding_bound(std::int64_t steps, int points) {
    return static_cast<double>(steps * 2 * points) * static_cast<double>(std::numeric_limits<T>::epsilon());
}

/// The initial value of a cell: in [0, 1), different for adjacent cells, exact in float.
STENCIL_BOTH inline double value_at(long x, long y, long z) {
    std::uint32_t mixed = static_cast<std::uint32_t>(x) * 2654435761U +
                          static_cast<std::uint32_t>(y) * 2246822519U +
                          static_cast<std::uint32_t>(z) * 3266489917U;
    mixed ^= mixed >> 15;
    mixed *= 2246822519U;
    mixed ^= mixed >> 13;
    return static_cast<double>(mixed % 4096U) / 4096.0;
}

/// Whether the host's code rounds a x b + c once, as GPUs do. Otherwise they differ in the last digits.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__PPC64__)
#define STENCIL_HOST_FUSES 1
#else
#define STENCIL_HOST_FUSES 0
#endif

template <typename T>
STENCIL_BOTH inline T multiply_add(T a, T b, T c) {
#if defined(__CUDA_ARCH__)
    return fma(a, b, c);
#elif STENCIL_HOST_FUSES
    return std::fma(a, b, c);
#else
    return a * b + c;
#endif
}

/// Adds the contribution of the plane dz of the neighbourhood to a sum. All code of the stencil uses this
/// order, so that all results agree bit for bit.
/// @param at at(dy, dx): the values of that plane; @param sum of the planes below (none for dz = -1)
template <int points, int dz, typename T, typename At>
STENCIL_BOTH inline T add_plane(const Coefficients<T>& c, const At& at, T sum) {
    if (points == 27) {
        for (int dy = -1; dy <= 1; ++dy) {
            for (int dx = -1; dx <= 1; ++dx) {
                const T k = c.of[9 * dz + 3 * dy + dx + 13];
                sum = 9 * dz + 3 * dy + dx == -13 ? k * at(dy, dx) : multiply_add(k, at(dy, dx), sum);
            }
        }
        return sum;
    }
    if (dz < 0) return c.of[0] * at(0, 0);
    if (dz > 0) return multiply_add(c.of[6], at(0, 0), sum);
    sum = multiply_add(c.of[1], at(-1, 0), sum);
    sum = multiply_add(c.of[2], at(0, -1), sum);
    sum = multiply_add(c.of[3], at(0, 0), sum);
    sum = multiply_add(c.of[4], at(0, 1), sum);
    return multiply_add(c.of[5], at(1, 0), sum);
}

/// One step at one cell. @param at at(dz, dy, dx): the values around it
template <int points, typename T, typename At>
STENCIL_BOTH inline T stepped(const Coefficients<T>& c, const At& at) {
    T sum = add_plane<points, -1>(c, [&](int dy, int dx) { return at(-1, dy, dx); }, T(0));
    sum = add_plane<points, 0>(c, [&](int dy, int dx) { return at(0, dy, dx); }, sum);
    return add_plane<points, 1>(c, [&](int dy, int dx) { return at(1, dy, dx); }, sum);
}

}  // namespace stencil
