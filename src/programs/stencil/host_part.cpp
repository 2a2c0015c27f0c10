// A slab on the host: rows of all planes are distributed over OpenMP threads; each row is one vector loop.
#include "programs/stencil/host_part.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "lib/base/clock.h"
#include "lib/base/host_array.h"

namespace stencil {

namespace {

/// One row. Aliasing between its nine neighbours and the written row is excluded, so that the compiler
/// vectorises.
template <int points, typename T>
void step_row(const Coefficients<T>& c, const T* __restrict__ from, T* __restrict__ to, int nx, long row,
              long plane) {
#pragma omp simd
    for (int x = 1; x < nx - 1; ++x) {
        to[x] =
            stepped<points>(c, [&](int dz, int dy, int dx) { return from[dz * plane + dy * row + dx + x]; });
    }
}

template <typename T>
class HostPart : public Part {
  public:
    HostPart(const Layout& layout, const Problem& problem, int number)
        : Part(layout, number), points_(problem.points), coefficients_(coefficients<T>(problem.points)) {
        for (auto& owner : owners_) owner.reset(new tenken::HostArray(bytes() / sizeof(double) + 1));
    }

    tenken::Subject subject() const override { return tenken::Subject::host(); }
    void* plane(int array, long z) override { return row(array, z, 0); }
    std::size_t plane_bytes() const override { return layout().plane() * sizeof(T); }

    void fill() override {
        const Slab slab = layout().slab;
        const int ny = layout().grid.ny;
        const int nx = layout().grid.nx;
        // By the threads that later process the rows: first touch.
#pragma omp parallel for collapse(2) schedule(static)
        for (long z = slab.first - layout().halo; z < slab.end() + layout().halo; ++z) {
            for (int y = 0; y < ny; ++y) {
                const bool own = (z >= slab.first && z < slab.end()) || y == 0 || y == ny - 1;
                T* const first = row(0, z, y);
                T* const second = row(1, z, y);
                for (int x = 0; x < layout().pitch; ++x) {
                    const bool known = x < nx && (own || x == 0 || x == nx - 1);
                    first[x] = second[x] =
                        known ? static_cast<T>(value_at(x, y, z)) : std::numeric_limits<T>::quiet_NaN();
                }
            }
        }
    }

    void step(Queue, int from, const Range& one, const Range& other, int) override {
        for (const Range& range : {one, other}) {
            if (points_ == 27) {
                step_planes<27>(from, range);
            } else {
                step_planes<7>(from, range);
            }
        }
    }

    void order(Queue, Queue) override {}
    void wait(Queue) override {}
    void begin_marks(long) override { marks_ = {tenken::now_seconds()}; }
    void mark() override { marks_.push_back(tenken::now_seconds()); }
    std::vector<double> between_marks() override {
        std::vector<double> seconds;
        for (std::size_t i = 1; i < marks_.size(); ++i) seconds.push_back(marks_[i] - marks_[i - 1]);
        return seconds;
    }

    tenken::ErrorScan compare_pass(int from, int) override {
        tenken::ErrorScan errors(0);
        const Slab slab = layout().slab;
        const Grid grid = layout().grid;
        const auto pitch = static_cast<long>(layout().pitch);
        const auto plane = static_cast<long>(layout().plane());
#pragma omp parallel
        {
            tenken::ErrorScan mine(0);
#pragma omp for collapse(2) schedule(static)
            for (long z = std::max(slab.first, 1L); z < std::min(slab.end(), grid.nz - 1); ++z) {
                for (int y = 1; y < grid.ny - 1; ++y) {
                    for (int x = 1; x < grid.nx - 1; ++x) {
                        const T* const here = row(from, z, y) + x;
                        const auto at = [&](int dz, int dy, int dx) {
                            return here[dz * plane + dy * pitch + dx];
                        };
                        const T expected =
                            points_ == 27 ? stepped<27>(coefficients_, at) : stepped<7>(coefficients_, at);
                        const T found = row(1 - from, z, y)[x];
                        const auto cell =
                            static_cast<std::size_t>((z * grid.ny + y) * static_cast<long>(grid.nx) + x);
                        mine.compare(cell, static_cast<double>(found), static_cast<double>(expected));
                    }
                }
            }
#pragma omp critical(stencil_scan)
            errors.merge(mine);
        }
        return errors;
    }

    void read(int array, const Range& planes, void* cells) override {
        T* to = static_cast<T*>(cells);
        const int nx = layout().grid.nx;
        for (long z = planes.begin; z < planes.end; ++z) {
            for (int y = 0; y < layout().grid.ny; ++y, to += nx) std::copy_n(row(array, z, y), nx, to);
        }
    }

    void write(int array, long z, const void* cells) override {
        const T* from = static_cast<const T*>(cells);
        const int nx = layout().grid.nx;
        for (int y = 0; y < layout().grid.ny; ++y, from += nx) std::copy_n(from, nx, row(array, z, y));
    }

  private:
    std::size_t bytes() const { return layout().elements() * sizeof(T); }

    T* row(int array, long z, int y) {
        T* const base = reinterpret_cast<T*>(owners_[array]->data());
        return base + static_cast<std::size_t>(layout().local(z)) * layout().plane() +
               static_cast<std::size_t>(y) * static_cast<std::size_t>(layout().pitch);
    }

    template <int points>
    void step_planes(int from, const Range& range) {
        const int ny = layout().grid.ny;
        const int nx = layout().grid.nx;
        const auto pitch = static_cast<long>(layout().pitch);
        const auto plane = static_cast<long>(layout().plane());
#pragma omp parallel for collapse(2) schedule(static)
        for (long z = range.begin; z < range.end; ++z) {
            for (int y = 1; y < ny - 1; ++y) {
                step_row<points>(coefficients_, row(from, z, y), row(1 - from, z, y), nx, pitch, plane);
            }
        }
    }

    int points_;
    Coefficients<T> coefficients_;
    std::unique_ptr<tenken::HostArray> owners_[2];
    std::vector<double> marks_;
};

}  // namespace

std::unique_ptr<Part> make_host_part(const Layout& layout, const Problem& problem, int number) {
    if (problem.element_bytes == sizeof(double)) {
        return std::unique_ptr<Part>(new HostPart<double>(layout, problem, number));
    }
    return std::unique_ptr<Part>(new HostPart<float>(layout, problem, number));
}

}  // namespace stencil
