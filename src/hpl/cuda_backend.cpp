#include <unistd.h>

#include <array>
#include <map>
#include <sstream>

#include "common/cuda/devices.h"
#include "common/cuda/gpus.h"
#include "common/gpu_selection.h"
#include "common/program.h"
#include "hpl/backend.h"
#include "hpl/gpu_engine.h"

namespace hpl {

namespace {

/// Operations of FP64 a cycle and multiprocessor, tensor cores included, by compute capability (CUDA C++
/// Programming Guide, arithmetic throughput; NVIDIA's architecture white papers); 0 where not known here.
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
        arguments.text(
            "gpus", gpus_text_, "LIST",
            "which GPUs, by CUDA index: all, or a list such as 0,2; each rank of a node takes one");
        arguments.choice(
            "panel", panel_, {"auto", "resident", "streamed", "library"},
            "panels by the own kernel with rows in shared memory or not, or by cuSOLVER; auto: the own "
            "one while an update hides it, cuSOLVER for the last --few-rows");
        arguments.integer("few-rows", few_rows_, 0, 1000000,
                          "rows of a panel below which auto takes cuSOLVER");
        arguments.integer(
            "panel-blocks", panel_blocks_, 0, 1024,
            "multiprocessors that the own panel kernel may take from the update; more where the rows of "
            "16 columns need them; 0: all");
        arguments.integer("triangle", triangle_, 0, 4096,
                          "columns of the panel's triangle that are inverted at once; 0: cublasDtrsm");
        arguments.choice("carrier", carrier_, {"auto", "nccl", "mpi", "host"},
                         "how panels get to other GPUs: NCCL, MPI with device pointers, or through the host");
    }

    void prepare(const tenken::Arguments& arguments, Ranks& ranks) override {
        std::vector<int> indices;
        const int count = tenken::cuda::device_count();
        try {
            indices = tenken::parse_gpu_list(gpus_text_, count);
        } catch (const tenken::ArgumentError& wrong) {
            throw arguments.error("gpus", wrong.what());
        }
        if (static_cast<std::size_t>(ranks.local_size()) > indices.size()) {
            const std::string detail = std::to_string(ranks.local_size()) + " ranks on a node with " +
                                       std::to_string(indices.size()) + " GPUs; each rank needs one";
            throw tenken::Waived(tenken::Waiver::needs_two_gpus, detail);
        }
        const std::shared_ptr<const tenken::Nvml> nvml = tenken::Nvml::open(why_no_nvml_);
        const int index = indices[static_cast<std::size_t>(ranks.local_rank())];
        gpu_.reset(new tenken::cuda::Gpu(tenken::cuda::describe(index, nvml.get()), nvml));
        gpu().use();
        know_each_other(ranks);
    }

    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu().index()); }
    std::uint64_t free_bytes() const override { return gpu().description().memory_free_bytes; }
    std::uint64_t needed_bytes(const Layout& layout) const override { return gpu_bytes(layout); }
    std::vector<std::int64_t> blocks_to_try() const override { return {512, 1024, 2048}; }
    std::int64_t least_width() const override { return 128; }

    std::unique_ptr<Engine> make(const Layout& layout, Ranks& ranks) override {
        GpuChoices choices;
        choices.few_rows = few_rows_;
        choices.panel = panel_ == "auto"       ? PanelKind::automatic
                        : panel_ == "resident" ? PanelKind::resident
                        : panel_ == "streamed" ? PanelKind::streamed
                                               : PanelKind::library;
        choices.panel_blocks = static_cast<int>(panel_blocks_);
        choices.triangle = triangle_;
        Carrier* carrier = nullptr;
        if (ranks.size() > 1) {
            // Ranks are joined once for each grid.
            std::unique_ptr<Carrier>& link =
                links_[{{layout.rows.count, layout.columns.count, ranks.at(0, layout.columns.count - 1)}}];
            const CarrierKind kind = carrier_ == "nccl"   ? CarrierKind::nccl
                                     : carrier_ == "mpi"  ? CarrierKind::mpi
                                     : carrier_ == "host" ? CarrierKind::host
                                                          : CarrierKind::automatic;
            if (!link) link = make_carrier(kind, ranks, layout.rows.count, layout.columns.count);
            carrier = link.get();
        }
        return make_gpu_engine(layout, choices, carrier);
    }

    void watch(const std::function<void()>& work) override {
        const tenken::cuda::TimedPart watched(gpu());
        work();
    }

    std::vector<double> library_solution(const Matrix& matrix) override {
        return gpu_library_solution(matrix);
    }

    tenken::Limit peak() const override {
        const tenken::DeviceDescription& device = gpu().description();
        const int operations = operations_per_cycle(device.compute_capability);
        if (operations == 0)
            return tenken::Limit::unknown("operations of FP64 a cycle are not known for compute capability " +
                                          device.compute_capability);
        if (!device.sm_clock_max_mhz) return tenken::Limit::unknown("the device does not tell its clock");
        return tenken::Limit::known(
            *device.sm_clock_max_mhz * 1e6 * device.multiprocessors * operations / 1e12, "TFLOP/s",
            "attribute: multiprocessors x highest clock x " + std::to_string(operations) +
                " FP64 operations a cycle");
    }

    /// Every GPU of the node of the rank that speaks: a document's devices are those of one node.
    void report(tenken::Document& document, Ranks& ranks) override {
        tenken::cuda::describe_build(document.build);
        std::string why_not;
        std::string health;
        if (gpu().health().why_not()) {
            why_not = why_no_nvml_.empty() ? *gpu().health().why_not() : why_no_nvml_;
        } else {
            health = gpu().health().finish().json().dump();
        }
        const std::vector<std::string> devices = ranks.gather(gpu().description().json().dump());
        const std::vector<std::string> healths = ranks.gather(health);
        const std::vector<std::string> reasons = ranks.gather(why_not);
        if (!ranks.speaks()) return;
        const std::vector<std::string> nodes = ranks.nodes();
        document.health.available = true;
        document.health.reason.clear();
        for (std::size_t rank = 0; rank < devices.size(); ++rank) {
            if (rank < nodes.size() && nodes[rank] != nodes[0]) continue;
            document.more_devices.push_back(tenken::Json::verbatim(devices[rank]));
            if (healths[rank].empty()) {
                document.health.available = false;
                document.health.reason = reasons[rank];
            } else {
                document.health.more_devices.push_back(tenken::Json::verbatim(healths[rank]));
            }
        }
    }

  private:
    tenken::cuda::Gpu& gpu() { return *gpu_; }
    const tenken::cuda::Gpu& gpu() const { return *gpu_; }

    /// The other ranks' processes are not strangers on the GPU.
    static void know_each_other(Ranks& ranks) {
        std::string text;
        for (const std::string& pid : ranks.gather(std::to_string(getpid()))) text += pid + "\n";
        std::istringstream all(ranks.broadcast(text));
        std::vector<int> pids;
        for (int pid = 0; all >> pid;) pids.push_back(pid);
        tenken::set_processes_of_run(pids);
    }

    std::string gpus_text_ = "all";
    std::string why_no_nvml_;
    std::unique_ptr<tenken::cuda::Gpu> gpu_;
    std::string panel_ = "auto";
    std::int64_t few_rows_ = 12288;
    std::int64_t panel_blocks_ = 32;
    std::int64_t triangle_ = 256;
    std::string carrier_ = "auto";
    std::map<std::array<int, 3>, std::unique_ptr<Carrier>> links_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend() {
    return std::unique_ptr<Backend>(new CudaBackend);
}

}  // namespace hpl
