#include <cuda_runtime.h>

#include <stdexcept>

#include "lib/base/gpu_selection.h"
#include "lib/base/links.h"
#include "lib/base/program.h"
#include "lib/cuda/devices.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/peer.h"
#include "lib/cuda/verify.cuh"
#include "lib/mpi/rank_gpus.h"

namespace mpi_p2p {

namespace {

/// value_at(), written for the device.
struct Filled {
    Values values;
    std::size_t whole;
    __host__ __device__ double operator()(std::size_t i) const {
        if (i >= whole) return tenken::cut_off(values.base);
        return values.base + values.scale * (static_cast<double>(i % period) / 1024.0);
    }
};

template <typename Memory>
class GpuBuffer : public Buffer {
  public:
    explicit GpuBuffer(std::size_t bytes) : array_(bytes / sizeof(double) + 1) {}

    void* at(std::size_t offset) override { return doubles(offset); }

    void fill(std::size_t offset, std::size_t bytes, const Values& values) override {
        tenken::cuda::fill(doubles(offset), (bytes + 7) / 8, Filled{values, bytes / 8}, stream_);
        stream_.synchronize();
    }

    void clear(std::size_t offset, std::size_t bytes) override {
        TENKEN_CUDA(cudaMemsetAsync(doubles(offset), 0xff, (bytes + 7) / 8 * 8, stream_.get()));
        stream_.synchronize();
    }

    tenken::ErrorScan compare(std::size_t offset, std::size_t bytes, const Values& values) override {
        tenken::ErrorScan errors(0);
        const double* const array = doubles(offset);
        const std::size_t whole = bytes / sizeof(double);
        const std::size_t rest = bytes % sizeof(double);
        if (whole > 0) errors.merge(tenken::cuda::compare(array, whole, Filled{values, whole}, 0, stream_));
        if (rest > 0) {
            double came = 0;
            TENKEN_CUDA(cudaMemcpy(&came, array + whole, rest, cudaMemcpyDefault));
            const double wanted = value_at(values, whole, whole);
            errors.compare(whole, completed(&came, rest, wanted), wanted);
        }
        return errors;
    }

    void flip_bit(std::size_t offset) override {
        unsigned char first = 0;
        TENKEN_CUDA(cudaMemcpy(&first, doubles(offset), 1, cudaMemcpyDefault));
        first = static_cast<unsigned char>(first ^ 1u);
        TENKEN_CUDA(cudaMemcpy(doubles(offset), &first, 1, cudaMemcpyDefault));
    }

  private:
    double* doubles(std::size_t offset) { return array_.data() + offset / sizeof(double); }

    tenken::cuda::Array<double, Memory> array_;
    tenken::cuda::Stream stream_;
};

class CudaRankGpus : public RankGpus {
  public:
    void options(tenken::Arguments& arguments) override {
        arguments.text(
            "gpus", asked_, "LIST",
            "GPUs assigned to the ranks of a node in turn, by CUDA index: all, or a list such as 0,2");
    }

    void prepare(const tenken::Arguments& arguments, int local_rank) override {
        std::vector<int> indices;
        try {
            indices = tenken::parse_gpu_list(asked_, tenken::cuda::device_count());
        } catch (const tenken::ArgumentError& wrong) {
            throw arguments.error("gpus", wrong.what());
        }
        const int index = indices[static_cast<std::size_t>(local_rank) % indices.size()];
        nvml_ = tenken::Nvml::open(why_no_nvml_);
        gpu_.reset(new tenken::cuda::Gpu(tenken::cuda::describe(index, nvml_.get()), nvml_));
        gpu_->use();
    }

    int index() const override { return gpu_->index(); }
    const tenken::DeviceDescription& description() const override { return gpu_->description(); }

    std::unique_ptr<Buffer> buffer(Kind kind, std::size_t bytes) override {
        if (kind == Kind::managed) {
            if (!gpu_->description().managed_memory) {
                throw tenken::Waived(tenken::Waiver::no_managed_memory, "cudaDevAttrManagedMemory is 0");
            }
            return std::unique_ptr<Buffer>(new GpuBuffer<tenken::cuda::ManagedMemory>(bytes));
        }
        return std::unique_ptr<Buffer>(new GpuBuffer<tenken::cuda::DeviceMemory>(bytes));
    }

    void begin_timed() override { gpu_->health().start(); }
    void end_timed() override { gpu_->health().stop(); }

    tenken::Optional<tenken::DeviceHealth> health(std::string& why_not) override {
        if (gpu_->health().why_not()) {
            why_not = why_no_nvml_.empty() ? *gpu_->health().why_not() : why_no_nvml_;
            return {};
        }
        return gpu_->health().finish();
    }

    void describe_build(tenken::Build& build) override { tenken::cuda::describe_build(build); }

    std::vector<double> peer_copy(const std::string& pci_bus_id, std::size_t bytes,
                                  long repetitions) override {
        const int other = seen(pci_bus_id);
        if (other < 0 || other == index() || !tenken::cuda::can_access_peer(index(), other)) return {};
        const tenken::cuda::PeerAccess access(index(), other);
        const tenken::cuda::DeviceArray<unsigned char> from(bytes);
        std::unique_ptr<tenken::cuda::DeviceArray<unsigned char>> to;
        {
            const tenken::cuda::CurrentGpu current(other);
            to.reset(new tenken::cuda::DeviceArray<unsigned char>(bytes));
        }
        const tenken::cuda::Stream stream;
        const auto copy = [&](const tenken::cuda::Stream& on) {
            TENKEN_CUDA(cudaMemcpyPeerAsync(to->data(), other, from.data(), index(), bytes, on.get()));
        };
        tenken::cuda::warm_up(0.1, stream, copy);
        return tenken::cuda::time_each(repetitions, stream, copy).device;
    }

    void report_link(tenken::Document& document, const std::string& pci_bus_id) override {
        const int other = seen(pci_bus_id);
        if (other < 0 || other == index() || !nvml_) return;
        tenken::LinkedGpu ends[2];
        ends[0].description = gpu_->description();
        {
            const tenken::cuda::CurrentGpu current(other);
            ends[1].description = tenken::cuda::describe(other, nvml_.get());
        }
        for (tenken::LinkedGpu& end : ends) {
            std::string why_not;
            const tenken::Nvml::Device device = nvml_->find(end.description.pci_bus_id.value_or(""), why_not);
            if (device != nullptr) end.links = nvml_->links(device);
        }
        tenken::report_link(document, index(), other, tenken::pair_link(ends[0], ends[1]));
    }

  private:
    /// The CUDA index of a GPU, -1 if it is not visible to this process.
    static int seen(const std::string& pci_bus_id) {
        int device = -1;
        if (cudaDeviceGetByPCIBusId(&device, pci_bus_id.c_str()) == cudaSuccess) return device;
        cudaGetLastError();
        return -1;
    }

    std::string asked_ = "all";
    std::string why_no_nvml_;
    std::shared_ptr<const tenken::Nvml> nvml_;
    std::unique_ptr<tenken::cuda::Gpu> gpu_;
};

}  // namespace

std::unique_ptr<RankGpus> make_rank_gpus() {
    return std::unique_ptr<RankGpus>(new CudaRankGpus);
}

}  // namespace mpi_p2p
