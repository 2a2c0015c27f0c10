// CUDA on one GPU, the grid in its memory.
#include <utility>

#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "programs/stencil_forms/column_kernel.cuh"

namespace stencil_forms {

namespace {

class Device : public Form {
  public:
    explicit Device(const Grid& grid) : grid_(grid), a_(cells_of(grid)), b_(a_.size()) {}

    void load(const double* cells) override {
        TENKEN_CUDA(cudaMemcpy(now_, cells, a_.bytes(), cudaMemcpyHostToDevice));
        TENKEN_CUDA(cudaMemcpy(next_, cells, a_.bytes(), cudaMemcpyHostToDevice));
    }

    void advance(long steps) override {
        for (; steps > 0; --steps) {
            launch_columns(grid_, c_, now_, next_, 1, grid_.nz - 1, stream_.get());
            std::swap(now_, next_);
        }
        stream_.synchronize();
    }

    void store(double* cells) override {
        TENKEN_CUDA(cudaMemcpy(cells, now_, a_.bytes(), cudaMemcpyDeviceToHost));
    }

  private:
    Grid grid_;
    tenken::cuda::Stream stream_;
    tenken::cuda::DeviceArray<double> a_;
    tenken::cuda::DeviceArray<double> b_;
    double* now_ = a_.data();
    double* next_ = b_.data();
    const Coefficients<double> c_ = stencil::coefficients<double>(27);
};

}  // namespace

std::unique_ptr<Form> make_device(const Grid& grid) {
    return std::unique_ptr<Form>(new Device(grid));
}

}  // namespace stencil_forms
