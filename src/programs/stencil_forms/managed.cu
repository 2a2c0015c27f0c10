// A partitioned global address space over GPUs: one grid in managed memory, accessible to every GPU. Each
// computes its own planes, which are in its memory, and reads its neighbours' by their addresses. Nothing
// is sent; a barrier ends each step.
#include <algorithm>
#include <utility>
#include <vector>

#include "lib/cuda/managed.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/peer.h"
#include "lib/cuda/timing.h"
#include "programs/stencil_forms/column_kernel.cuh"

namespace stencil_forms {

namespace {

class Managed : public Form {
  public:
    Managed(const Grid& grid, const int* gpus, int count)
        : grid_(grid), gpus_(gpus, gpus + count), a_(cells_of(grid)), b_(a_.size()) {
        for (int i = 0; i < count; ++i) {
            const tenken::cuda::CurrentGpu current(gpus_[static_cast<std::size_t>(i)]);
            streams_.emplace_back(new tenken::cuda::Stream);
            for (double* array : {now_, next_}) place(array, i);
        }
    }

    void load(const double* cells) override {
        std::copy(cells, cells + a_.size(), now_);
        std::copy(cells, cells + a_.size(), next_);
        for (int i = 0; i < count(); ++i) {
            const tenken::cuda::CurrentGpu current(gpu(i));
            for (double* array : {now_, next_}) {
                tenken::cuda::prefetch(array + begin(i) * plane(), bytes(i), tenken::MemorySpace::device,
                                       gpu(i), stream(i));
            }
        }
        barrier();
    }

    void advance(long steps) override {
        for (; steps > 0; --steps) {
            for (int i = 0; i < count(); ++i) {
                const tenken::cuda::CurrentGpu current(gpu(i));
                launch_columns(grid_, c_, now_, next_, std::max(begin(i), 1L), std::min(end(i), grid_.nz - 1),
                               stream(i).get());
            }
            barrier();
            std::swap(now_, next_);
        }
    }

    void store(double* cells) override { std::copy(now_, now_ + a_.size(), cells); }

  private:
    int count() const { return static_cast<int>(gpus_.size()); }
    int gpu(int i) const { return gpus_[static_cast<std::size_t>(i)]; }
    const tenken::cuda::Stream& stream(int i) const { return *streams_[static_cast<std::size_t>(i)]; }
    long plane() const { return static_cast<long>(grid_.nx) * grid_.ny; }
    long begin(int i) const { return stencil::slab_of(grid_.nz, i, count()).first; }
    long end(int i) const { return stencil::slab_of(grid_.nz, i, count()).end(); }
    std::size_t bytes(int i) const {
        return static_cast<std::size_t>((end(i) - begin(i)) * plane()) * sizeof(double);
    }

    /// The planes of a GPU stay there, and its neighbours access them without migration.
    void place(double* array, int i) {
        tenken::cuda::advise(array + begin(i) * plane(), bytes(i), tenken::MemorySpace::device, gpu(i));
        for (int other : {i - 1, i + 1}) {
            if (other < 0 || other >= count() || !tenken::cuda::can_access_peer(gpu(other), gpu(i))) continue;
            tenken::cuda::map_for(array + begin(i) * plane(), bytes(i), gpu(other));
        }
    }
    void barrier() {
        for (int i = 0; i < count(); ++i) stream(i).synchronize();
    }

    Grid grid_;
    std::vector<int> gpus_;
    std::vector<std::unique_ptr<tenken::cuda::Stream>> streams_;
    tenken::cuda::ManagedArray<double> a_;
    tenken::cuda::ManagedArray<double> b_;
    double* now_ = a_.data();
    double* next_ = b_.data();
    const Coefficients<double> c_ = stencil::coefficients<double>(27);
};

}  // namespace

std::unique_ptr<Form> make_managed(const Grid& grid, const int* gpus, int count) {
    return std::unique_ptr<Form>(new Managed(grid, gpus, count));
}

}  // namespace stencil_forms
