#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/cuda/devices.h"
#include "common/cuda/gpus.h"
#include "common/program.h"
#include "hpl/backend.h"
#include "hpl/gpu_engine.h"

namespace hpl {

namespace {

/// Operations of FP64 a cycle and multiprocessor, tensor cores included, by compute capability (CUDA C++ Programming
/// Guide, arithmetic throughput; NVIDIA's architecture white papers); 0 where not known here.
int operations_per_cycle(const std::string& capability) {
    if (capability == "6.0") return 64;
    if (capability == "7.0") return 64;
    if (capability == "8.0") return 128;
    if (capability == "9.0") return 256;
    return 0;
}

class CudaBackend : public Backend {
  public:
    std::string name() const override { return "cuda"; }

    void options(tenken::Arguments& arguments) override {
        arguments.heading("options of --backend cuda");
        gpus_.options(arguments, false);
        arguments.choice("panel", panel_, {"resident", "streamed", "library"},
                         "panels by the own kernel with rows in shared memory or not, or by cuSOLVER");
        arguments.integer("panel-blocks", panel_blocks_, 0, 1024,
                          "blocks of the own panel kernel at most; 0: as many as multiprocessors");
        arguments.integer("triangle", triangle_, 0, 4096,
                          "columns of the panel's triangle that are inverted at once; 0: cublasDtrsm");
        arguments.choice("carrier", carrier_, {"auto", "nccl", "mpi", "host"},
                         "how panels get to other GPUs: NCCL, MPI with device pointers, or through the host");
    }

    void prepare(const tenken::Arguments& arguments, Ranks& ranks) override {
        gpus_.prepare(arguments);
        const std::size_t count = gpus_.size();
        if (static_cast<std::size_t>(ranks.local_size()) > count) {
            const std::string detail = std::to_string(ranks.local_size()) + " ranks on a node with " +
                                       std::to_string(count) + " GPUs; one each is needed";
            throw tenken::Waived(tenken::Waiver::needs_two_gpus, detail);
        }
        std::unique_ptr<tenken::cuda::Gpu> mine =
            std::move(gpus_.list()[static_cast<std::size_t>(ranks.local_rank())]);
        gpus_.list().clear();
        gpus_.list().push_back(std::move(mine));
        gpu().use();
    }

    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu().index()); }
    std::uint64_t free_bytes() const override { return gpu().description().memory_free_bytes; }
    std::uint64_t needed_bytes(const Layout& layout) const override { return gpu_bytes(layout); }
    std::vector<std::int64_t> blocks_to_try() const override { return {512, 768, 1024, 1536}; }
    std::int64_t least_width() const override { return 128; }

    std::unique_ptr<Engine> make(const Layout& layout, Ranks& ranks) override {
        GpuChoices choices;
        choices.panel = panel_ == "resident"   ? PanelKind::resident
                        : panel_ == "streamed" ? PanelKind::streamed
                                               : PanelKind::library;
        choices.panel_blocks = static_cast<int>(panel_blocks_);
        choices.triangle = triangle_;
        if (ranks.size() > 1 && !link_) {
            const CarrierKind kind = carrier_ == "nccl"   ? CarrierKind::nccl
                                     : carrier_ == "mpi"  ? CarrierKind::mpi
                                     : carrier_ == "host" ? CarrierKind::host
                                                          : CarrierKind::automatic;
            link_ = make_carrier(kind, ranks, layout.rows.count, layout.columns.count);
        }
        return make_gpu_engine(layout, choices, link_.get());
    }

    void watch(const std::function<void()>& work) override {
        const tenken::cuda::TimedPart watched(gpu());
        work();
    }

    tenken::Limit peak() const override {
        const tenken::DeviceDescription& device = gpu().description();
        const int operations = operations_per_cycle(device.compute_capability);
        if (operations == 0)
            return tenken::Limit::unknown("operations of FP64 a cycle are not known for compute capability " +
                                          device.compute_capability);
        if (!device.sm_clock_max_mhz) return tenken::Limit::unknown("the device does not tell its clock");
        return tenken::Limit::known(*device.sm_clock_max_mhz * 1e6 * device.multiprocessors * operations / 1e12,
                                    "TFLOP/s",
                                    "attribute: multiprocessors x highest clock x " + std::to_string(operations) +
                                        " FP64 operations a cycle");
    }

    void report(tenken::Document& document, Ranks& ranks) override {
        (void)ranks;
        gpus_.report(document);
    }

  private:
    tenken::cuda::Gpu& gpu() { return *gpus_.list().front(); }
    const tenken::cuda::Gpu& gpu() const { return *gpus_.list().front(); }

    tenken::cuda::Gpus gpus_;
    std::string panel_ = "resident";
    std::int64_t panel_blocks_ = 0;
    std::int64_t triangle_ = 256;
    std::string carrier_ = "auto";
    std::unique_ptr<Carrier> link_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend() {
    return std::unique_ptr<Backend>(new CudaBackend);
}

}  // namespace hpl
