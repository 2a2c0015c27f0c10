// The grid of the Himeno benchmark: its sizes, its data by formula, and the update of one cell.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define HIMENO_BOTH __host__ __device__
#else
#define HIMENO_BOTH
#endif

namespace himeno {

/// i is the slowest index and k the fastest. Only cells with 0 < i < ni - 1 and so on change.
struct Grid {
    int ni;
    int nj;
    int nk;

    HIMENO_BOTH std::size_t plane() const {
        return static_cast<std::size_t>(nj) * static_cast<std::size_t>(nk);
    }
    HIMENO_BOTH std::size_t cells() const { return static_cast<std::size_t>(ni) * plane(); }
    double inner_cells() const {
        return static_cast<double>(ni - 2) * static_cast<double>(nj - 2) * static_cast<double>(nk - 2);
    }
    std::size_t last_inner_cell() const { return cells() - plane() - static_cast<std::size_t>(nk) - 2; }
    std::size_t bytes_of_one() const { return cells() * sizeof(float); }
};

/// As counted by the benchmark, per cell and iteration.
constexpr double flops_of_cell = 34;
constexpr float omega = 0.8F;

/// The arrays, in the order of the benchmark: a has four parts, b and c three each.
enum Name { a0, a1, a2, a3, b0, b1, b2, c0, c1, c2, wrk1, bnd, p, coefficients = p };
constexpr int arrays = 14;  ///< the twelve, and the pressure twice

/// official: the constants of the benchmark, where b and wrk1 are 0. varied: different from cell to cell, so
/// that a wrong index shows in the result, and contracting, so that the pressure stays small for any number
/// of iterations.
enum class Data { official, varied };

/// The initial value of an array at a cell; exact in float.
HIMENO_BOTH inline float value_at(int name, Data data, const Grid& grid, std::size_t cell) {
    const std::uint32_t mixed =
        (static_cast<std::uint32_t>(cell) * 2654435761U + static_cast<std::uint32_t>(name) * 2246822519U) >>
        16;
    const float some = data == Data::varied ? static_cast<float>(mixed % 8U) : 0.0F;
    switch (name) {
        case a3:
            return 1.0F / 6.0F;
        case b0:
        case b1:
        case b2:
            return some / 1024.0F;
        case wrk1:
            return some / 8192.0F;
        case bnd:
            return 1.0F;
        case p: {
            const auto i = static_cast<float>(cell / grid.plane());
            const auto last = static_cast<float>(grid.ni - 1);
            return i * i / (last * last);
        }
        default:
            return data == Data::varied ? (1000.0F + some) / 1024.0F : 1.0F;
    }
}

/// One Jacobi step at one cell. `coefficient(name)` returns that cell's, `at(di, dj, dk)` the pressure around
/// it.
/// @return the correction: its square is added to gosa, omega times it to the pressure
template <typename Real, typename Coefficient, typename Around>
HIMENO_BOTH inline Real correction(const Coefficient& coefficient, const Around& at) {
    const Real sum = coefficient(a0) * at(1, 0, 0) + coefficient(a1) * at(0, 1, 0) +
                     coefficient(a2) * at(0, 0, 1) +
                     coefficient(b0) * (at(1, 1, 0) - at(1, -1, 0) - at(-1, 1, 0) + at(-1, -1, 0)) +
                     coefficient(b1) * (at(0, 1, 1) - at(0, -1, 1) - at(0, 1, -1) + at(0, -1, -1)) +
                     coefficient(b2) * (at(1, 0, 1) - at(-1, 0, 1) - at(1, 0, -1) + at(-1, 0, -1)) +
                     coefficient(c0) * at(-1, 0, 0) + coefficient(c1) * at(0, -1, 0) +
                     coefficient(c2) * at(0, 0, -1) + coefficient(wrk1);
    return (sum * coefficient(a3) - at(0, 0, 0)) * coefficient(bnd);
}

}  // namespace himeno
