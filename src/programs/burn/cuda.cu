// The phases on GPUs.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "lib/cuda/devices.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/peer.h"
#include "lib/nccl/library.h"
#include "programs/burn/burner.h"
#include "programs/burn/library_product.h"
#include "programs/burn/own_kernel.cuh"

namespace burn {

namespace {

/// Minimum share of the free memory, below which the test is meaningless.
constexpr double least_share = 0.95;
constexpr unsigned block = 256;
constexpr std::size_t scratch_words = 4096;

template <typename Body>
__global__ void each_kernel(std::size_t count, Body body) {
    const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
    if (i < count) body(i);
}

__global__ void endless_kernel(volatile std::uint32_t* never) {
    while (*never == 0) continue;
}

class CudaExec {
  public:
    static constexpr std::size_t workspace_bytes = LibraryProduct::workspace_bytes;
    static constexpr std::size_t study_units = 16384;

    /// @throws std::runtime_error if less than least_share of the free memory can be allocated
    CudaExec(tenken::cuda::Gpu& gpu, std::shared_ptr<const tenken::Nvml> nvml, double share)
        : gpu_(gpu), nvml_(std::move(nvml)) {
        gpu_.use();
        free_bytes_ = tenken::cuda::free_memory_bytes();
        stream_.reset(new tenken::cuda::Stream);
        down_.reset(new tenken::cuda::Stream);
        up_.reset(new tenken::cuda::Stream);
        for (auto& event : events_) event.reset(new tenken::cuda::Event);
        scratch_.reset(new tenken::cuda::DeviceArray<std::uint32_t>(scratch_words));
        const double least = std::min(share, least_share);
        for (double part = share; pool_ == nullptr && part >= least - 1e-9; part -= 0.0025) {
            pool_bytes_ = static_cast<std::size_t>(part * static_cast<double>(free_bytes_)) >> 21 << 21;
            if (cudaMalloc(&pool_, pool_bytes_) == cudaSuccess) break;
            (void)cudaGetLastError();
            pool_ = nullptr;
        }
        if (pool_ == nullptr)
            throw std::runtime_error("GPU " + std::to_string(gpu_.index()) + ": not " +
                                     std::to_string(static_cast<int>(100 * least)) + " % of the free " +
                                     tenken::format_bytes(free_bytes_) + " can be allocated");
    }
    ~CudaExec() {
        gpu_.use();
        products_.clear();
        if (comm_ != nullptr) nccl_->comm_destroy(comm_);
        if (library_ != nullptr) cublasLtDestroy(library_);
        cudaFree(pool_);
    }
    CudaExec(const CudaExec&) = delete;
    CudaExec& operator=(const CudaExec&) = delete;

    void use() { gpu_.use(); }
    tenken::Subject subject() const { return tenken::Subject::gpu(gpu_.index()); }
    std::string serial() const {
        return gpu_.description().serial.value_or(gpu_.description().uuid.value_or(""));
    }
    std::string kind() const { return gpu_.description().name; }
    tenken::Json index() const { return gpu_.index(); }
    double memory_share() const {
        return static_cast<double>(pool_bytes_) / static_cast<double>(free_bytes_);
    }
    tenken::Meter* energy() { return &gpu_.energy(); }
    void begin() { gpu_.health().start(); }
    void end() { gpu_.health().stop(); }

    void hang() {
        clear(scratch_->data(), scratch_->bytes());
        endless_kernel<<<1, 1, 0, stream_->get()>>>(scratch_->data());
        TENKEN_CUDA(cudaGetLastError());
        synchronize();
    }

    Sensors sensors() {
        Sensors now;
        if (!nvml_) return now;
        std::string why_not;
        const tenken::Nvml::Device device = nvml_->find(gpu_.description().pci_bus_id.value_or(""), why_not);
        if (device == nullptr) return now;
        const tenken::HealthSample read = nvml_->read(device, false);
        now.temperature_c = read.temperature_c;
        now.power_w = read.power_w;
        now.clock_mhz = read.sm_clock_mhz;
        now.ecc_corrected = read.ecc_corrected;
        now.ecc_uncorrected = read.ecc_uncorrected;
        now.joules = nvml_->energy_joules(device);
        return now;
    }

    std::string why_not(const Phase& phase) const {
        const double capability = std::atof(gpu_.description().compute_capability.c_str());
        if (phase.kind == Kind::peer && ranks_ < 2) return "it needs two GPUs";
        if (phase.kind == Kind::all_reduce && ranks_ < 2) return "it needs two GPUs";
        if (phase.kind == Kind::all_reduce && comm_ == nullptr) return why_no_nccl_;
        if (phase.kind != Kind::product && phase.kind != Kind::steps) return "";
        const Operand operand = phase.format->operand;
        const double needed = operand == Operand::e4m3                               ? 8.9
                              : operand == Operand::tf32 || operand == Operand::bf16 ? 8.0
                              : operand == Operand::int8                             ? 7.5
                              : phase.own                                            ? 8.0
                                                                                     : 0;
#if CUDART_VERSION < 11080
        if (operand == Operand::e4m3) return "FP8 needs CUDA 11.8";
#endif
        if (capability >= needed) return "";
        char text[48];
        std::snprintf(text, sizeof text, "it needs compute capability %.1f", needed);
        return text;
    }

    void* pool() { return pool_; }
    std::size_t pool_bytes() const { return pool_bytes_; }
    Shape shape(const Phase& phase) const {
        // 0.2 ms on an H100, less than half of the shortest wave
        if (phase.kind == Kind::steps) return {2048, 2048, 8192};
        // all of it must fit several times
        if (pool_bytes_ < (std::size_t{12} << 30)) return {4096, 4096, phase.format->k / 8};
        return {8192, 8192, phase.format->k};
    }
    /// Words and matrix of a chain take 7 GiB, on small GPUs 1 GiB.
    std::uint32_t chain_bits() const { return pool_bytes_ < (std::size_t{12} << 30) ? 23 : 26; }

    template <typename Body>
    void each(std::size_t count, const Body& body) {
        if (count == 0) return;
        each_kernel<<<static_cast<unsigned>((count + block - 1) / block), block, 0, stream_->get()>>>(count,
                                                                                                      body);
        TENKEN_CUDA(cudaGetLastError());
    }
    template <typename Body>
    void each_on_host(std::size_t count, const Body& body) {
#pragma omp parallel for schedule(static)
        for (std::size_t i = 0; i < count; ++i) body(i);
    }
    void synchronize() {
        stream_->synchronize();
        down_->synchronize();
        up_->synchronize();
        marks_ = 0;
    }
    /// At most two marks are ahead of the GPU: it is never idle, and the host sees its progress.
    void mark() {
        tenken::cuda::Event& event = *events_[marks_ % 2];
        if (marks_ >= 2) TENKEN_CUDA(cudaEventSynchronize(event.get()));
        event.record(*stream_);
        ++marks_;
    }
    void clear(void* at, std::size_t bytes) { TENKEN_CUDA(cudaMemsetAsync(at, 0, bytes, stream_->get())); }
    void copy(void* to, const void* from, std::size_t bytes) {
        TENKEN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_->get()));
    }
    void read(void* to, const void* from, std::size_t bytes) {
        TENKEN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_->get()));
        stream_->synchronize();
    }
    void write(void* to, const void* from, std::size_t bytes) {
        TENKEN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_->get()));
        stream_->synchronize();
    }

    void begin_product(const Phase& phase, const Shape& shape, const void* a, const void* b, void* c,
                       void* workspace) {
        shape_ = shape;
        current_ = nullptr;
        if (phase.own) return;
        if (library_ == nullptr) {
            // would compute FP64 from integers
            unsetenv("CUBLAS_EMULATE_DOUBLE_PRECISION");
            unsetenv("CUBLAS_EMULATE_SINGLE_PRECISION");
            TENKEN_CUBLAS(cublasLtCreate(&library_));
        }
        std::unique_ptr<LibraryProduct>& known = products_[phase.name];
        if (!known) {
            known.reset(new LibraryProduct(*phase.format, shape));
            known->choose(library_, a, b, c, workspace, *stream_);
        }
        current_ = known.get();
    }
    void product(const void* a, const void* b, void* c, void* workspace) {
        if (current_ != nullptr) {
            current_->multiply(library_, a, b, c, workspace, stream_->get());
            return;
        }
        if (stages_ == 0) choose_stages();
        switch (stages_) {
            case 4:
                own_product<4, 0>(tiles(), a, b, c, {}, {});
                return;
            case 3:
                own_product<3, 0>(tiles(), a, b, c, {}, {});
                return;
            default:
                own_product<2, 0>(tiles(), a, b, c, {}, {});
        }
    }

    /// Whether this fault acts within the sums of this program's kernel. Its units are then the kernel's
    /// tiles.
    bool real_faults(const Phase& phase, Fault fault, Units& units) const {
        if (!phase.own ||
            (fault != Fault::accumulator_bit && fault != Fault::stuck_sm && fault != Fault::stuck_operand))
            return false;
        units = {own::rows_a, own::rows_b / segment_columns};
        return true;
    }
    void product_with(Fault fault, std::uint64_t seed, const void* a, const void* b, const Product& product,
                      std::uint8_t* state) {
        own_product<2, 1>(tiles(), a, b, product.c, {fault, seed, state, 4}, {});
    }

    /// One element of a product in FP16, computed by each multiprocessor. Empty for other products.
    std::string on_every_multiprocessor(const Phase& phase, const void* a, const void* b,
                                        const Product& product, std::uint32_t row, std::uint32_t column) {
        const std::uint32_t count = static_cast<std::uint32_t>(gpu_.description().multiprocessors);
        if (phase.format->operand != Operand::fp16 ||
            std::atof(gpu_.description().compute_capability.c_str()) < 8)
            return "";
        // multiprocessors of a GPU are numbered below this, with gaps for those that are switched off
        constexpr std::uint32_t most = scratch_words / 2;
        clear(scratch_->data(), scratch_->bytes());
        const own::Everywhere everywhere = {row / own::rows_a, column / own::rows_b,   row, column,
                                            scratch_->data(),  scratch_->data() + most};
        std::vector<std::uint32_t> found(scratch_words);
        std::uint32_t visited = 0;
        for (int turn = 0; turn < 8 && visited < count; ++turn) {
            own_product<2, 2>(count, a, b, product.c, {}, everywhere);
            read(found.data(), scratch_->data(), scratch_->bytes());
            visited = static_cast<std::uint32_t>(std::count(found.begin() + most, found.end(), 1U));
        }
        const std::uint64_t right =
            bits_of(product.of.product(product.first_row + row, column, 0, product.of.k), product.result);
        std::string wrong;
        for (std::uint32_t i = 0; i < most; ++i) {
            if (found[most + i] != 0 && found[i] != right)
                wrong += (wrong.empty() ? "" : ", ") + std::to_string(i);
        }
        const std::string of =
            " of the " + std::to_string(visited) + " multiprocessors that computed it again";
        return wrong.empty() ? "correct on all" + of : "wrong on " + wrong + of;
    }

    std::size_t copy_bytes() const {
        return std::min<std::size_t>(std::size_t{256} << 20, pool_bytes_ / 4 / 4096 * 4096);
    }
    void* host_buffer(std::uint32_t which) {
        std::unique_ptr<tenken::cuda::PinnedArray<char>>& buffer = buffers_[which];
        if (!buffer) buffer.reset(new tenken::cuda::PinnedArray<char>(copy_bytes()));
        return buffer->data();
    }
    void to_host(void* to, const void* from, std::size_t bytes) {
        TENKEN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, down_->get()));
    }
    void to_device(void* to, const void* from, std::size_t bytes) {
        TENKEN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, up_->get()));
    }

    std::uint32_t rank() const { return rank_; }
    std::uint32_t ranks() const { return ranks_; }
    /// @param next the one whose memory pull() copies from the beginning of its pool
    void join(std::uint32_t rank, std::uint32_t ranks, const CudaExec& next) {
        rank_ = rank;
        ranks_ = ranks;
        next_ = &next;
    }
    void join(std::shared_ptr<nccl::Library> library, nccl::Comm comm, std::string why_not) {
        nccl_ = std::move(library);
        comm_ = comm;
        why_no_nccl_ = std::move(why_not);
    }
    void all_reduce(const double* from, double* to, std::size_t count) {
        nccl_->check(nccl_->all_reduce(from, to, count, nccl::float64, nccl::sum, comm_, stream_->get()),
                     "all_reduce");
    }
    void pull(void* to, std::size_t bytes) {
        TENKEN_CUDA(
            cudaMemcpyPeerAsync(to, gpu_.index(), next_->pool_, next_->gpu_.index(), bytes, stream_->get()));
    }

  private:
    std::uint32_t tiles() const { return shape_.m / own::rows_a * (shape_.n / own::rows_b); }

    void choose_stages() {
        int most = 0;
        TENKEN_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu_.index()));
        stages_ = std::max(2, std::min(4, most / static_cast<int>(own::stage_bytes)));
    }

    template <int stages, int kind>
    void own_product(std::uint32_t blocks, const void* a, const void* b, void* c, own::Defect defect,
                     own::Everywhere everywhere) {
        constexpr int bytes = stages * static_cast<int>(own::stage_bytes);
        TENKEN_CUDA(cudaFuncSetAttribute(own::multiply<stages, kind>,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
        own::multiply<stages, kind><<<blocks, own::threads, bytes, stream_->get()>>>(
            a, b, static_cast<float*>(c), shape_.m, shape_.n, shape_.k, defect, everywhere);
        TENKEN_CUDA(cudaGetLastError());
    }

    tenken::cuda::Gpu& gpu_;
    std::shared_ptr<const tenken::Nvml> nvml_;
    std::unique_ptr<tenken::cuda::Stream> stream_;
    std::unique_ptr<tenken::cuda::Stream> down_;
    std::unique_ptr<tenken::cuda::Stream> up_;
    std::unique_ptr<tenken::cuda::Event> events_[2];
    std::uint64_t marks_ = 0;
    std::unique_ptr<tenken::cuda::DeviceArray<std::uint32_t>> scratch_;
    std::unique_ptr<tenken::cuda::PinnedArray<char>> buffers_[2];
    cublasLtHandle_t library_ = nullptr;
    std::map<std::string, std::unique_ptr<LibraryProduct>> products_;
    const LibraryProduct* current_ = nullptr;
    Shape shape_ = {0, 0, 0};
    int stages_ = 0;
    std::uint64_t free_bytes_ = 0;
    void* pool_ = nullptr;
    std::size_t pool_bytes_ = 0;
    std::uint32_t rank_ = 0;
    std::uint32_t ranks_ = 1;
    const CudaExec* next_ = nullptr;
    std::shared_ptr<nccl::Library> nccl_;
    nccl::Comm comm_ = nullptr;
    std::string why_no_nccl_;
};

class CudaFamily : public Family {
  public:
    std::string name() const override { return "cuda"; }

    void options(tenken::Arguments& arguments) override {
        arguments.heading("back end cuda");
        gpus_.options(arguments, false);
    }

    std::vector<std::unique_ptr<Place>> places(const tenken::Arguments& arguments, double memory_share,
                                               std::uint64_t, std::uint32_t, std::uint64_t seed) override {
        gpus_.prepare(arguments);
        std::string why_not;
        const std::shared_ptr<const tenken::Nvml> nvml = tenken::Nvml::open(why_not);
        std::vector<std::unique_ptr<CudaExec>> execs;
        for (const auto& gpu : gpus_.list()) execs.emplace_back(new CudaExec(*gpu, nvml, memory_share));
        const std::size_t count = execs.size();
        std::vector<std::unique_ptr<Place>> list;
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t next = (i + 1) % count;
            execs[i]->join(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(count), *execs[next]);
            const int one = gpus_.list()[i]->index();
            const int other = gpus_.list()[next]->index();
            if (one != other && tenken::cuda::can_access_peer(one, other))
                access_.emplace_back(new tenken::cuda::PeerAccess(one, other));
        }
        if (count > 1) join_by_nccl(execs);
        for (std::unique_ptr<CudaExec>& exec : execs)
            list.emplace_back(new Burner<CudaExec>(std::move(exec), seed));
        return list;
    }

    void describe(tenken::Document& document) override {
        const std::size_t number = cublasLtGetVersion();
        document.build.libraries.emplace_back("cuBLASLt", std::to_string(number / 10000) + "." +
                                                              std::to_string(number / 100 % 100) + "." +
                                                              std::to_string(number % 100));
        if (!nccl_version_.empty()) document.build.libraries.emplace_back("NCCL", nccl_version_);
        document.path("peer_access", !access_.empty());
        gpus_.report(document);
    }

  private:
    void join_by_nccl(std::vector<std::unique_ptr<CudaExec>>& execs) {
        // in-switch reductions would leave little traffic on the links to verify, and their multicast needs a
        // separate service
        setenv("NCCL_NVLS_ENABLE", "0", 0);
        std::string why_not;
        const std::shared_ptr<nccl::Library> library = nccl::Library::open(why_not);
        std::vector<nccl::Comm> comms(execs.size(), nullptr);
        if (library) {
            nccl::UniqueId id;
            library->check(library->get_unique_id(&id), "get_unique_id");
            library->check(library->group_start(), "group_start");
            for (std::size_t i = 0; i < execs.size(); ++i) {
                execs[i]->use();
                library->check(library->comm_init_rank(&comms[i], static_cast<int>(execs.size()), id,
                                                       static_cast<int>(i)),
                               "comm_init_rank");
            }
            library->check(library->group_end(), "group_end");
            nccl_version_ = library->version();
        }
        for (std::size_t i = 0; i < execs.size(); ++i) execs[i]->join(library, comms[i], why_not);
    }

    tenken::cuda::Gpus gpus_;
    std::string nccl_version_;
    std::vector<std::unique_ptr<tenken::cuda::PeerAccess>> access_;
};

}  // namespace

std::unique_ptr<Family> make_cuda_family() {
    return std::unique_ptr<Family>(new CudaFamily);
}

}  // namespace burn
