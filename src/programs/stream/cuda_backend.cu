// STREAM on GPUs. Every kernel is timed by events behind a gate, and by the host clock. Its launch
// configuration is known from measurements on such a GPU, or is found at the start by trials on the actual
// arrays.
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "lib/base/host.h"
#include "lib/base/statistics.h"
#include "lib/cuda/dot.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/sweep.cuh"
#include "lib/cuda/verify.cuh"
#include "programs/stream/backend.h"

namespace stream {

namespace {

using tenken::cuda::Caching;
using tenken::cuda::CopyOp;
using tenken::cuda::Launch;
using tenken::cuda::load_pair;

struct ScaleOp {
    const double* c;
    double scalar;
    template <Caching caching>
    __device__ double2 pair(std::size_t p) const {
        const double2 value = load_pair<caching>(c, p);
        return make_double2(scalar * value.x, scalar * value.y);
    }
    __device__ double element(std::size_t i) const { return scalar * c[i]; }
};

struct AddOp {
    const double* a;
    const double* b;
    template <Caching caching>
    __device__ double2 pair(std::size_t p) const {
        const double2 x = load_pair<caching>(a, p);
        const double2 y = load_pair<caching>(b, p);
        return make_double2(x.x + y.x, x.y + y.y);
    }
    __device__ double element(std::size_t i) const { return a[i] + b[i]; }
};

struct TriadOp {
    const double* b;
    const double* c;
    double scalar;
    template <Caching caching>
    __device__ double2 pair(std::size_t p) const {
        const double2 x = load_pair<caching>(b, p);
        const double2 y = load_pair<caching>(c, p);
        return make_double2(x.x + scalar * y.x, x.y + scalar * y.y);
    }
    __device__ double element(std::size_t i) const { return b[i] + scalar * c[i]; }
};

/// factor x start(i), start() written for the device.
struct Start {
    double factor;
    __host__ __device__ double operator()(std::size_t i) const {
        return factor * (1.0 + static_cast<double>(i % period) / 1024.0);
    }
};

class CudaBackend : public Backend {
  public:
    /// @param try_launches even if the best ones are known
    CudaBackend(tenken::cuda::Gpu& gpu, bool try_launches) : gpu_(gpu), try_launches_(try_launches) {}

    Capacity capacity() const override {
        const tenken::DeviceDescription& device = gpu_.description();
        Capacity capacity;
        if (device.l2_bytes > 0) capacity.cache_bytes = device.l2_bytes;
        capacity.default_caches = 20;
        capacity.min_default_bytes = std::uint64_t{1} << 30;
        capacity.free_bytes = device.memory_free_bytes;
        if (device.integrated) {
            // Shared with the host, whose page cache counts as used until it is needed.
            capacity.free_bytes = std::max(capacity.free_bytes, tenken::available_memory_bytes());
            capacity.min_default_bytes = std::min(capacity.min_default_bytes, capacity.free_bytes / 8);
        }
        return capacity;
    }

    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu_.index()); }
    std::string clock() const override { return "device"; }

    void allocate(std::size_t elements) override {
        gpu_.use();
        stream_.reset(new tenken::cuda::Stream);
        gate_.reset(new tenken::cuda::Gate);
        dot_.reset(new tenken::cuda::Dot);
        start_.reset(new tenken::cuda::Event);
        stop_.reset(new tenken::cuda::Event);
        for (int i = 0; i < 3; ++i) arrays_.emplace_back(elements);
        elements_ = elements;
        write_start_values();  // measured with the actual data, because zeros may be faster
        load_kernels();
        write_start_values();
        if (try_launches_ || !take_known_launches()) {
            choose_launches();
            write_start_values();
        }
        stream_->synchronize();
    }

    Cycle cycle(double scalar) override {
        Cycle result;
        std::array<double, kernel_count> host_seconds;
        for (std::size_t k = 0; k < kernel_count; ++k) {
            double begin = 0;
            {
                const tenken::cuda::GateOpener opener(*gate_);
                gate_->close(*stream_);
                start_->record(*stream_);
                enqueue(static_cast<Kernel>(k), scalar, launches_[k]);
                stop_->record(*stream_);
                if (static_cast<Kernel>(k) == Kernel::dot) dot_->enqueue_fetch(*stream_);
                begin = tenken::now_seconds();
            }
            stream_->synchronize();
            host_seconds[k] = tenken::now_seconds() - begin;
            result.seconds[k] = stop_->seconds_since(*start_);
        }
        result.host_seconds = host_seconds;
        result.dot = dot_->value();
        return result;
    }

    const double* read(Array array, std::size_t first, std::size_t count, double* scratch) override {
        TENKEN_CUDA(cudaMemcpy(scratch, at(array) + first, count * sizeof(double), cudaMemcpyDeviceToHost));
        return scratch;
    }

    void write(Array array, std::size_t index, double value) override {
        TENKEN_CUDA(cudaMemcpy(at(array) + index, &value, sizeof value, cudaMemcpyHostToDevice));
    }

    tenken::EnergyMeter* energy() override { return &gpu_.energy(); }
    void begin_timed() override { gpu_.health().start(); }
    void end_timed() override { gpu_.health().stop(); }

    tenken::ErrorScan compare(Array array, std::size_t elements, double factor, double tolerance) override {
        return tenken::cuda::compare(at(array), elements, Start{factor}, tolerance, *stream_);
    }

    tenken::Optional<std::vector<double>> memcpy_seconds(long repetitions) override {
        double* const to = at(Array::c);
        const double* const from = at(Array::a);
        const std::size_t bytes = arrays_.front().bytes();
        const auto launch = [=](const tenken::cuda::Stream& stream) {
            TENKEN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream.get()));
        };
        tenken::cuda::warm_up(0.1, *stream_, launch);
        return tenken::cuda::time_each(repetitions, *stream_, launch).device;
    }

    void describe(tenken::Document& document) const override {
        static const char* const names[kernel_count] = {"copy", "scale", "add", "triad", "dot"};
        for (std::size_t k = 0; k < kernel_count; ++k) {
            document.path("launch." + std::string(names[k]) + "." + subject().text(), launches_[k].text());
        }
    }

  private:
    double* at(Array array) { return arrays_[static_cast<std::size_t>(array)].data(); }

    void write_start_values() {
        const std::size_t elements = arrays_.front().size();
        tenken::cuda::fill(at(Array::a), elements, Start{1}, *stream_);
        tenken::cuda::fill(at(Array::b), elements, Start{0}, *stream_);
        tenken::cuda::fill(at(Array::c), elements, Start{0}, *stream_);
    }

    /// Runs every candidate kernel once, without a gate: CUDA loads a kernel at its first launch. If loading
    /// waits for the GPU, it would wait for a closed gate.
    void load_kernels() {
        for (std::size_t k = 0; k < kernel_count; ++k) {
            for (const Launch& candidate : candidates(static_cast<Kernel>(k))) {
                enqueue(static_cast<Kernel>(k), 0.5, candidate);
            }
        }
        dot_->enqueue_fetch(*stream_);
        stream_->synchronize();
    }

    std::vector<Launch> candidates(Kernel kernel) const {
        const int multiprocessors = gpu_.description().multiprocessors;
        return kernel == Kernel::dot ? tenken::cuda::reduction_launches(multiprocessors)
                                     : tenken::cuda::sweep_launches(multiprocessors);
    }

    /// The fastest configuration on such a GPU within a cycle, if it was measured.
    bool take_known_launches() {
        if (!tenken::cuda::launches_are_known(gpu_.description().compute_capability)) return false;
        const int multiprocessors = gpu_.description().multiprocessors;
        launches_ = {{{128, 1, Caching::streaming},
                      {256, 1, Caching::normal},
                      {512, 1, Caching::normal},
                      {128, 1, Caching::streaming},
                      {1024, 4, Caching::streaming, 4 * multiprocessors}}};
        return true;
    }

    /// Tries configurations within whole cycles, one kernel at a time, and selects those that minimise the
    /// cycle. Timing a kernel by itself would mislead, since the next one must write back the data that it
    /// left in the L2.
    void choose_launches() {
        for (std::size_t k = 0; k < kernel_count; ++k)
            launches_[k] = candidates(static_cast<Kernel>(k)).front();
        shorten_cycle();
        for (std::size_t k = 0; k < kernel_count; ++k) {
            const std::vector<Launch> tried = candidates(static_cast<Kernel>(k));
            std::vector<double> costs;
            for (const Launch& candidate : tried) {
                launches_[k] = candidate;
                costs.push_back(seconds_of_cycle());
            }
            launches_[k] = tried[tenken::cuda::cheapest(costs, 0.0005)];
        }
        elements_ = arrays_.front().size();
    }

    /// On a slow GPU configurations are tried on the beginning of the arrays, so that it takes seconds, not
    /// minutes.
    void shorten_cycle() {
        constexpr double enough = 0.025;
        const double seconds = seconds_of_cycle();
        if (seconds <= enough) return;
        const std::size_t minimum =
            std::max<std::size_t>(8u << 20, 4 * gpu_.description().l2_bytes) / sizeof(double);
        const auto shorter = static_cast<std::size_t>(static_cast<double>(elements_) * enough / seconds);
        elements_ = std::min(elements_, std::max(shorter, minimum));
    }

    /// The median over some cycles of the time of all kernels together.
    double seconds_of_cycle() {
        std::vector<double> totals(5);
        cycle(0.5);
        for (double& total : totals) {
            for (double seconds : cycle(0.5).seconds) total += seconds;
        }
        return tenken::median(totals);
    }

    void enqueue(Kernel kernel, double scalar, const Launch& launch) {
        double* const a = at(Array::a);
        double* const b = at(Array::b);
        double* const c = at(Array::c);
        const std::size_t n = elements_;
        switch (kernel) {
            case Kernel::copy:
                return tenken::cuda::launch_sweep(launch, *stream_, c, CopyOp{a}, n);
            case Kernel::scale:
                return tenken::cuda::launch_sweep(launch, *stream_, b, ScaleOp{c, scalar}, n);
            case Kernel::add:
                return tenken::cuda::launch_sweep(launch, *stream_, c, AddOp{a, b}, n);
            case Kernel::triad:
                return tenken::cuda::launch_sweep(launch, *stream_, a, TriadOp{b, c, scalar}, n);
            case Kernel::dot:
                return dot_->enqueue(a, b, n, launch, *stream_);
        }
    }

    tenken::cuda::Gpu& gpu_;
    bool try_launches_;
    std::size_t elements_ = 0;  ///< processed by the kernels: all, except during trials
    std::unique_ptr<tenken::cuda::Stream> stream_;
    std::unique_ptr<tenken::cuda::Gate> gate_;
    std::unique_ptr<tenken::cuda::Dot> dot_;
    std::unique_ptr<tenken::cuda::Event> start_;
    std::unique_ptr<tenken::cuda::Event> stop_;
    std::vector<tenken::cuda::DeviceArray<double>> arrays_;
    std::array<Launch, kernel_count> launches_;
};

class CudaFamily : public Family {
  public:
    std::string name() const override { return "cuda"; }

    void options(tenken::Arguments& arguments) override {
        arguments.heading("back end cuda");
        gpus_.options(arguments);
        arguments.choice(
            "launch", launch_, {"known", "tried"},
            "launch configuration: the one known to be the fastest on this kind of GPU (found by trials "
            "if none is known), or the fastest of those tried at the start");
    }

    std::vector<std::unique_ptr<Backend>> places(const tenken::Arguments& arguments) override {
        gpus_.prepare(arguments);
        std::vector<std::unique_ptr<Backend>> list;
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) {
            list.emplace_back(new CudaBackend(*gpu, launch_ == "tried"));
        }
        return list;
    }

    bool at_once() const override { return gpus_.at_once(); }
    void describe(tenken::Document& document) override { gpus_.report(document); }

  private:
    tenken::cuda::Gpus gpus_;
    std::string launch_ = "tried";
};

}  // namespace

std::unique_ptr<Family> make_cuda_family() {
    return std::unique_ptr<Family>(new CudaFamily);
}

}  // namespace stream
