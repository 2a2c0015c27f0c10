#include "programs/stencil/gpu_backend.h"

#include <algorithm>
#include <map>

#include "lib/base/program.h"
#include "lib/cuda/copy.h"
#include "lib/cuda/devices.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/peer.h"
#include "programs/stencil/gpu_exchange.h"

namespace stencil {

namespace {

class CudaBackend : public GpuBackend {
  public:
    void options(tenken::Arguments& arguments) override { gpus_.options(arguments, false); }

    void prepare(const tenken::Arguments& arguments, tenken::Ranks& ranks) override {
        if (ranks.size() > 1) {
            gpus_.prepare(arguments, ranks);
        } else {
            gpus_.prepare(arguments);
        }
    }

    std::vector<tenken::DeviceDescription> descriptions() const override {
        std::vector<tenken::DeviceDescription> all;
        for (const auto& gpu : gpus_.list()) all.push_back(gpu->description());
        return all;
    }

    void require(const std::string& exchange, std::uint64_t part_bytes) override {
        if (exchange == "p2p") require_peers();
        if (exchange == "managed") {
            for (const tenken::DeviceDescription& device : descriptions()) {
                if (!device.managed_memory || !device.concurrent_managed_access) {
                    throw tenken::Waived(
                        tenken::Waiver::no_managed_memory,
                        "cudaDevAttrConcurrentManagedAccess is 0 of gpu" + std::to_string(device.index));
                }
            }
        }
        std::string why_not;
        if (exchange == "nccl" && !nccl_) {
            nccl_ = nccl::Library::open(why_not);
            if (!nccl_) throw tenken::Waived(tenken::Waiver::library_missing, why_not);
        }
        if (exchange == "nvshmem") {
            why_not = why_no_nvshmem();
            if (!why_not.empty()) throw tenken::Waived(tenken::Waiver::library_missing, why_not);
            part_bytes_ = part_bytes;
        }
    }

    tenken::Metric measure_copy(std::size_t which, double warmup_seconds) override {
        tenken::cuda::Gpu& one = gpu(which);
        one.use();
        const tenken::cuda::Stream stream;
        // Far beyond the L2, and at most as large as the slabs.
        const std::size_t elements =
            std::max<std::size_t>(std::size_t{1} << 27, 20 * one.description().l2_bytes / 16);
        tenken::cuda::require_free_memory(2 * elements * sizeof(double), "two arrays of the copy");
        tenken::cuda::DeviceArray<double> from(elements);
        tenken::cuda::DeviceArray<double> to(elements);
        TENKEN_CUDA(cudaMemsetAsync(from.data(), 0x3f, from.bytes(), stream.get()));
        const auto launch = [&](const tenken::cuda::Stream& on) {
            tenken::cuda::copy(to.data(), from.data(), elements, tenken::cuda::copy_launch(), on);
        };
        tenken::cuda::warm_up(warmup_seconds, stream, launch);
        tenken::Metric metric;
        metric.name = "copy";
        metric.subject = tenken::Subject::gpu(one.index());
        metric.clock = "device";
        metric.timed(tenken::cuda::time_each(100, stream, launch).device,
                     {{"bytes", 2.0 * static_cast<double>(from.bytes())}});
        return metric;
    }

    int max_temporal_block(const Problem& problem) const override {
        return stencil::max_temporal_block(problem);
    }

    std::unique_ptr<Part> make_part(std::size_t which, const Layout& layout, const Problem& problem,
                                    int number, std::size_t capacity, const Memory& memory) override {
        gpu(which).use();
        return make_gpu_part(gpu(which), layout, problem, number, capacity, memory, tunings_[which]);
    }

    std::unique_ptr<Exchange> make_exchange(const std::string& name, tenken::Ranks& ranks,
                                            Transport& transport, int parts) override {
        gpu(0).use();
        if (name == "p2p")
            return ranks.size() > 1 ? make_ipc_exchange(ranks, transport) : make_peer_exchange();
        if (name == "nccl") return make_nccl_exchange(*nccl_, ranks, parts);
        if (name == "nvshmem") return make_nvshmem_exchange(ranks, part_bytes_);
        if (name == "managed") return make_managed_exchange();
        return make_staged_exchange(transport);
    }

    tenken::EnergyMeter& energy(std::size_t which) override { return gpu(which).energy(); }

    void begin_timed() override {
        for (const auto& gpu : gpus_.list()) gpu->health().start();
    }
    void end_timed() override {
        for (const auto& gpu : gpus_.list()) gpu->health().stop();
    }

    bool leave_at_once() const override { return nvshmem_has_begun(); }

    void report(tenken::Document& document, tenken::Ranks& ranks) override {
        if (ranks.size() > 1) {
            gpus_.report(document, ranks);
        } else {
            gpus_.report(document);
        }
        if (nccl_) document.build.libraries.emplace_back("NCCL", nccl_->version());
        for (const auto& tuned : tunings_) {
            for (const auto& cut : tuned.second.all()) {
                document.path("kernel.gpu" + std::to_string(gpus_.list()[tuned.first]->index()) +
                                  ".temporal_block=" + std::to_string(cut.first),
                              cut.second.second);
            }
        }
    }

  private:
    tenken::cuda::Gpu& gpu(std::size_t which) { return *gpus_.list()[which]; }

    /// Those with adjacent slabs: GPUs of one node, in the order of their ranks.
    void require_peers() const {
        const std::vector<int>& all = gpus_.selected();
        for (std::size_t i = 1; i < all.size(); ++i) {
            const int one = all[i - 1];
            const int other = all[i];
            if (tenken::cuda::can_access_peer(one, other) && tenken::cuda::can_access_peer(other, one))
                continue;
            throw tenken::Waived(
                tenken::Waiver::no_peer_access,
                "cudaDeviceCanAccessPeer is 0 for " + tenken::Subject::pair(one, other).text());
        }
    }

    tenken::cuda::Gpus gpus_;
    std::unique_ptr<nccl::Library> nccl_;
    std::uint64_t part_bytes_ = 0;
    std::map<std::size_t, Tuning> tunings_;  ///< by index in the list of GPUs
};

}  // namespace

std::unique_ptr<GpuBackend> make_gpu_backend() {
    return std::unique_ptr<GpuBackend>(new CudaBackend);
}

}  // namespace stencil
