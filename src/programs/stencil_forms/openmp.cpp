// The loops distributed over OpenMP threads, with one vector loop per row.
#include <utility>

#include "lib/base/host_array.h"
#include "programs/stencil_forms/row.h"

namespace stencil_forms {

namespace {

class OpenMp : public Form {
  public:
    explicit OpenMp(const Grid& grid) : grid_(grid), a_(cells_of(grid)), b_(a_.size()) {}

    void load(const double* cells) override {
        const long row = grid_.nx;
        // By the threads that later process the rows: first touch.
#pragma omp parallel for collapse(2) schedule(static)
        for (long z = 0; z < grid_.nz; ++z) {
            for (long y = 0; y < grid_.ny; ++y) {
                const long at = (z * grid_.ny + y) * row;
                for (long x = at; x < at + row; ++x) now_[x] = next_[x] = cells[x];
            }
        }
    }

    void advance(long steps) override {
        const Coefficients<double> c = stencil::coefficients<double>(27);
        const long row = grid_.nx;
        const long plane = row * grid_.ny;
        for (; steps > 0; --steps) {
#pragma omp parallel for collapse(2) schedule(static)
            for (long z = 1; z < grid_.nz - 1; ++z) {
                for (long y = 1; y < grid_.ny - 1; ++y) {
                    const long first = z * plane + y * row;
                    step_row(c, now_ + first, next_ + first, row, plane);
                }
            }
            std::swap(now_, next_);
        }
    }

    void store(double* cells) override { std::copy(now_, now_ + a_.size(), cells); }

  private:
    Grid grid_;
    tenken::HostArray a_;
    tenken::HostArray b_;
    double* now_ = a_.data();
    double* next_ = b_.data();
};

}  // namespace

std::unique_ptr<Form> make_openmp(const Grid& grid) {
    return std::unique_ptr<Form>(new OpenMp(grid));
}

}  // namespace stencil_forms
