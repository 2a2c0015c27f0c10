#include "programs/stencil_forms/gpus.h"

#include <vector>

#include "lib/base/copy_gpu.h"
#include "lib/cuda/gpus.h"

namespace stencil_forms {

namespace {

class CudaForms : public GpuForms {
  public:
    void options(tenken::Arguments& arguments) override { gpus_.options(arguments, false); }

    void prepare(const tenken::Arguments& arguments, const std::string& form, std::uint64_t bytes) override {
        gpus_.prepare(arguments);
        const std::uint64_t each = bytes / static_cast<std::uint64_t>(parts(form));
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) {
            if (form == "managed") tenken::require_method(tenken::Method::managed_touch, gpu->description());
            const std::uint64_t free = gpu->description().memory_free_bytes / 10 * 9;
            if (each <= free) continue;
            throw arguments.error("nz", "one whose grid fits: requested " + tenken::format_bytes(each) +
                                            ", at most " + tenken::format_bytes(free) + " on gpu" +
                                            std::to_string(gpu->index()));
        }
    }

    int parts(const std::string& form) const override {
        return form == "managed" ? static_cast<int>(gpus_.size()) : 1;
    }

    std::unique_ptr<Form> make(const std::string& form, const Grid& grid) override {
        gpus_.list().front()->use();
        if (form == "device") return make_device(grid);
        std::vector<int> indices;
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) indices.push_back(gpu->index());
        return make_managed(grid, indices.data(), static_cast<int>(indices.size()));
    }

    void begin_timed() override {
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) gpu->health().start();
    }
    void end_timed() override {
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) gpu->health().stop();
    }
    void report(tenken::Document& document) override { gpus_.report(document); }

  private:
    tenken::cuda::Gpus gpus_;
};

}  // namespace

std::unique_ptr<GpuForms> make_gpu_forms() {
    return std::unique_ptr<GpuForms>(new CudaForms);
}

}  // namespace stencil_forms
