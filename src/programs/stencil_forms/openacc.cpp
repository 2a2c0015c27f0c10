// The loops with OpenACC directives: they run on the device of the runtime, or on the host if it
// has none.
#include <openacc.h>

#include <cmath>
#include <utility>
#include <vector>

#include "lib/base/openacc_device.h"
#include "programs/stencil_forms/form.h"

namespace stencil_forms {

void describe_openacc(tenken::Document& document) {
    tenken::describe_openacc(document);
}

namespace {

#pragma acc routine seq
inline double multiply_and_add(double a, double b, double c) {
#if STENCIL_HOST_FUSES
    return std::fma(a, b, c);
#else
    return a * b + c;
#endif
}

class OpenAcc : public Form {
  public:
    explicit OpenAcc(const Grid& grid) : grid_(grid), a_(cells_of(grid)), b_(a_.size()) {
        acc_create(now_, a_.size() * sizeof(double));
        acc_create(next_, a_.size() * sizeof(double));
    }
    ~OpenAcc() override {
        acc_delete(now_, a_.size() * sizeof(double));
        acc_delete(next_, a_.size() * sizeof(double));
    }

    void load(const double* cells) override {
        for (double* array : {now_, next_}) {
            std::copy(cells, cells + a_.size(), array);
            acc_update_device(array, a_.size() * sizeof(double));
        }
    }

    void advance(long steps) override {
        for (; steps > 0; --steps) {
            one_step(grid_.nx, grid_.ny, grid_.nz, c_.of, now_, next_);
            std::swap(now_, next_);
        }
    }

    void store(double* cells) override {
        acc_update_self(now_, a_.size() * sizeof(double));
        std::copy(now_, now_ + a_.size(), cells);
    }

  private:
    static void one_step(long row, long ny, long nz, const double* c, const double* now, double* next) {
        const long plane = row * ny;
        const long cells = plane * nz;
        (void)cells;  // used by OpenACC only
#pragma acc parallel loop gang collapse(2) present(now[0 : cells], next[0 : cells]) copyin(c[0 : 27])
        for (long z = 1; z < nz - 1; ++z) {
            for (long y = 1; y < ny - 1; ++y) {
#pragma acc loop vector
                for (long x = 1; x < row - 1; ++x) {
                    const long here = z * plane + y * row + x;
                    double sum = 0;
#pragma acc loop seq
                    for (int dz = -1; dz <= 1; ++dz) {
#pragma acc loop seq
                        for (int dy = -1; dy <= 1; ++dy) {
#pragma acc loop seq
                            for (int dx = -1; dx <= 1; ++dx) {
                                const double value = now[here + dz * plane + dy * row + dx];
                                sum = multiply_and_add(c[9 * dz + 3 * dy + dx + 13], value, sum);
                            }
                        }
                    }
                    next[here] = sum;
                }
            }
        }
    }

    Grid grid_;
    std::vector<double> a_;
    std::vector<double> b_;
    double* now_ = a_.data();
    double* next_ = b_.data();
    const Coefficients<double> c_ = stencil::coefficients<double>(27);
};

}  // namespace

std::unique_ptr<Form> make_openacc(const Grid& grid) {
    return std::unique_ptr<Form>(new OpenAcc(grid));
}

}  // namespace stencil_forms
