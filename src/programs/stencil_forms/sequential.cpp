// Plain loops: the reference for the others.
#include <utility>
#include <vector>

#include "programs/stencil_forms/row.h"

namespace stencil_forms {

namespace {

class Sequential : public Form {
  public:
    explicit Sequential(const Grid& grid) : grid_(grid), now_(cells_of(grid)), next_(now_.size()) {}

    void load(const double* cells) override {
        now_.assign(cells, cells + now_.size());
        next_ = now_;
    }

    void advance(long steps) override {
        const Coefficients<double> c = stencil::coefficients<double>(27);
        const long row = grid_.nx;
        const long plane = row * grid_.ny;
        for (; steps > 0; --steps) {
            for (long z = 1; z < grid_.nz - 1; ++z) {
                for (long y = 1; y < grid_.ny - 1; ++y) {
                    const long first = z * plane + y * row;
                    step_row(c, now_.data() + first, next_.data() + first, row, plane);
                }
            }
            std::swap(now_, next_);
        }
    }

    void store(double* cells) override { std::copy(now_.begin(), now_.end(), cells); }

  private:
    Grid grid_;
    std::vector<double> now_;
    std::vector<double> next_;
};

}  // namespace

std::unique_ptr<Form> make_sequential(const Grid& grid) {
    return std::unique_ptr<Form>(new Sequential(grid));
}

}  // namespace stencil_forms
