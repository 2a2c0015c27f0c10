// Products on GPUs by cuBLASLt. Every proposed algorithm is tried. The fastest ones then have the GPU to
// themselves for a period each, which selects one. Every element of C is compared on the GPU.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include "catalogue/gemm.h"
#include "lib/base/clock.h"
#include "lib/base/statistics.h"
#include "lib/base/stretches.h"
#include "lib/base/verification.h"
#include "lib/cuda/devices.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "lib/cuda/verify.cuh"
#include "programs/gemm/backend.h"
#include "programs/gemm/kernels.cuh"
#include "programs/gemm/plan.h"

namespace gemm {

namespace {

using tenken::cuda::DeviceArray;

/// Maximum time for trying all algorithms.
constexpr double trial_seconds = 1.0;
/// How many of the fastest are then run alone for a period each, and the settling time of the power
/// limiter.
constexpr std::size_t finalists = 4;
constexpr double settling_seconds = 0.25;
constexpr double heat_seconds = 0.3;
constexpr double batch_seconds = 0.02;
/// Batches of a period: the timed units, of at least 0.02 s each.
constexpr std::size_t max_batches = 65536;
/// Size of the part of the reference that is computed at a time.
constexpr std::size_t reference_bytes = std::size_t{1} << 30;
/// The content of every byte of C before it is computed: a number that no product produces, in any format.
constexpr int poison = 0x7f;

class GpuPlace : public Place {
  public:
    explicit GpuPlace(tenken::cuda::Gpu& gpu) : gpu_(gpu) {}
    ~GpuPlace() override {
        release();
        if (library_ != nullptr) cublasLtDestroy(library_);
        if (blas_ != nullptr) cublasDestroy(blas_);
    }

    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu_.index()); }
    std::string clock() const override { return "device"; }

    std::string prepare(const Case& one) override {
        gpu_.use();
        if (library_ == nullptr) open();
        release();
        case_ = one;
        const Precision& precision = *one.precision;
        const Shape& shape = one.shape;
        const double elements =
            static_cast<double>(shape.m * shape.k + shape.k * shape.n) * static_cast<double>(shape.batch);
        const double products = static_cast<double>(shape.m * shape.n) * static_cast<double>(shape.batch);
        // For verification one problem of the batch is expanded to doubles, and its C in parts.
        const double needed =
            elements * precision.operand_bytes() + products * static_cast<double>(precision.output_bytes()) +
            8.0 * static_cast<double>(shape.m + reference_columns()) * static_cast<double>(shape.k) +
            static_cast<double>(reference_bytes) + 4.0 * workspace_bytes;
        const double free_bytes = static_cast<double>(tenken::cuda::free_memory_bytes());
        if (needed > 0.95 * free_bytes)
            return "needs " + tenken::format_bytes(static_cast<std::uint64_t>(needed)) + ", free are " +
                   tenken::format_bytes(static_cast<std::uint64_t>(free_bytes));
        if (const char* const why_not = too_old(precision)) return why_not;
        make_scales();
        plan_.reset(new Plan);
        const std::string why_not = plan_->make(one, scales_a_ ? scales_a_->data() : nullptr,
                                                scales_b_ ? scales_b_->data() : nullptr);
        if (!why_not.empty()) return why_not;
        candidates_ = plan_->propose(library_, precision.units);
        if (candidates_.empty())
            return "cuBLASLt " + version() + " has no algorithm for it on compute capability " +
                   gpu_.description().compute_capability;
        const std::size_t batch = static_cast<std::size_t>(shape.batch);
        const auto bytes = [&](std::int64_t count) {
            return static_cast<std::size_t>(static_cast<double>(count) * precision.operand_bytes()) * batch;
        };
        a_.reset(new DeviceArray<char>(bytes(shape.m * shape.k)));
        b_.reset(new DeviceArray<char>(bytes(shape.k * shape.n)));
        c_.reset(new DeviceArray<char>(static_cast<std::size_t>(shape.m * shape.n) * batch *
                                       precision.output_bytes()));
        return "";
    }

    void fill(Data data) override {
        gpu_.use();
        const Precision& precision = *case_.precision;
        if (data == Data::zeros) {
            TENKEN_CUDA(cudaMemsetAsync(a_->data(), 0, a_->bytes(), stream_->get()));
            TENKEN_CUDA(cudaMemsetAsync(b_->data(), 0, b_->bytes(), stream_->get()));
        } else {
            fill_operand(precision.a, 1, *a_);
            fill_operand(precision.b, 2, *b_);
        }
        reset();
        stream_->synchronize();
    }

    Choice choose(double stretch, bool twice) override {
        gpu_.use();
        const std::size_t proposed = candidates_.size();
        // One run each for loading, one for timing; the total time is limited.
        std::vector<std::pair<double, std::size_t>> times;
        const double begin = tenken::now_seconds();
        std::size_t tried = 0;
        for (; tried < proposed; ++tried) {
            if (tried >= finalists && tenken::now_seconds() - begin > trial_seconds) break;
            chosen_ = tried;
            if (launch() != CUBLAS_STATUS_SUCCESS) continue;  // proposed, but refused
            stream_->synchronize();
            times.emplace_back(seconds_of(1), tried);
        }
        if (times.empty()) refuse();
        const std::size_t first = times.front().second;
        std::sort(times.begin(), times.end());
        contenders_.clear();
        for (const auto& one : times) {
            if (contenders_.size() < finalists) contenders_.push_back(one.second);
        }
        if (std::find(contenders_.begin(), contenders_.end(), first) == contenders_.end())
            contenders_.push_back(first);
        chosen_ = contenders_.front();
        call_seconds_ = times.front().first;
        run_for(heat_seconds);
        stretch_seconds_ = stretch;
        stretches_.reset(new tenken::Stretches(contenders_.size()));
        const auto alone_for = [this](std::size_t i) { return alone(i); };
        stretches_->run(alone_for);
        if (twice) stretches_->again(alone_for);
        const std::size_t best = stretches_->best(place_of(first));
        chosen_ = contenders_[best];
        Choice choice;
        choice.over_first = stretches_->ratio(best, place_of(first));
        choice.text = "number " + std::to_string(chosen_ + 1) + " of " + std::to_string(proposed) +
                      " proposed, " + std::to_string(times.size()) + " tried; " + describe_chosen();
        return choice;
    }

    std::string take_first() override {
        gpu_.use();
        chosen_ = 0;
        while (chosen_ < candidates_.size() && launch() != CUBLAS_STATUS_SUCCESS) ++chosen_;
        if (chosen_ == candidates_.size()) refuse();
        stream_->synchronize();
        call_seconds_ = seconds_of(1);
        return "number " + std::to_string(chosen_ + 1) + " of " + std::to_string(candidates_.size()) +
               " proposed, none else tried; " + describe_chosen();
    }

    std::vector<Batch> run_for(double seconds) override {
        gpu_.use();
        const long each = std::max(1L, std::lround(batch_seconds / call_seconds_));
        std::vector<Batch> batches;
        tenken::cuda::Event begin;
        tenken::cuda::Event events[3];  // three in flight: the GPU is never idle
        std::size_t done = 0;
        std::size_t enqueued = 0;
        begin.record(*stream_);
        double before = 0;
        const auto collect = [&] {
            tenken::cuda::Event& event = events[done % 3];
            TENKEN_CUDA(cudaEventSynchronize(event.get()));
            const double now = event.seconds_since(begin);
            batches.push_back({before, now - before, each});
            before = now;
            ++done;
        };
        const double start = tenken::now_seconds();
        while ((tenken::now_seconds() - start < seconds || enqueued < 3) && enqueued < max_batches) {
            if (enqueued - done == 3) collect();
            for (long i = 0; i < each; ++i) TENKEN_CUBLAS(launch());
            events[enqueued % 3].record(*stream_);
            ++enqueued;
        }
        while (done < enqueued) collect();
        return batches;
    }

    double of_best() override {
        gpu_.use();
        const std::size_t chosen = chosen_;
        stretches_->again([this](std::size_t i) { return alone(i); });
        chosen_ = chosen;
        return stretches_->of_best(place_of(chosen));
    }

    tenken::Check verify(tenken::Fault fault) override {
        gpu_.use();
        const Precision& precision = *case_.precision;
        const Shape& shape = case_.shape;
        if (precision.adds) {
            reset();
            TENKEN_CUBLAS(launch());
        }
        stream_->synchronize();
        const std::int64_t columns = reference_columns();
        const double sign = precision.adds ? -1 : 1;
        const double scaled = precision.scales == Scales::none ? 1 : scale_a * scale_b;
        const Bound bound = bound_of(precision, shape.k);
        DeviceArray<double> a(static_cast<std::size_t>(shape.m * shape.k));
        DeviceArray<double> b(static_cast<std::size_t>(columns * shape.k));
        DeviceArray<double> exact(static_cast<std::size_t>(shape.m * columns));
        DeviceArray<double> norms_a(static_cast<std::size_t>(shape.m));
        DeviceArray<double> norms_b(static_cast<std::size_t>(columns));
        DeviceArray<tenken::cuda::Found> found(1);
        tenken::cuda::Found result = {0, ~0ULL};
        TENKEN_CUDA(cudaMemcpy(found.data(), &result, sizeof result, cudaMemcpyHostToDevice));
        const std::int64_t victim_batch = shape.batch - 1;
        const std::int64_t victim_column = shape.n - 1;
        for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
            const std::size_t begin_a = static_cast<std::size_t>(batch * shape.m * shape.k);
            expand(precision.a, 1, begin_a, a.size(), scaled, a);
            const bool transposed = plan_->transposed();
            norm_kernel<<<blocks_for(norms_a.size()), threads, 0, stream_->get()>>>(
                a.data(), shape.m, shape.k, transposed ? 1 : shape.m, transposed ? shape.k : 1,
                norms_a.data());
            TENKEN_CUDA(cudaGetLastError());
            for (std::int64_t first = 0; first < shape.n; first += columns) {
                const std::int64_t count = std::min(columns, shape.n - first);
                const std::size_t begin_b = static_cast<std::size_t>((batch * shape.n + first) * shape.k);
                expand(precision.b, 2, begin_b, static_cast<std::size_t>(count * shape.k), 1, b);
                norm_kernel<<<blocks_for(static_cast<std::size_t>(count)), threads, 0, stream_->get()>>>(
                    b.data(), count, shape.k, 1, shape.k, norms_b.data());
                TENKEN_CUDA(cudaGetLastError());
                multiply_reference(a, b, count, exact);
                const std::size_t begin_c = static_cast<std::size_t>((batch * shape.n + first) * shape.m);
                if (fault == tenken::Fault::element && batch == victim_batch && first <= victim_column &&
                    victim_column < first + count)
                    corrupt(exact, sign, norms_a, norms_b, bound, begin_c, victim_column - first);
                const std::size_t elements = static_cast<std::size_t>(count * shape.m);
                compare_kernel<<<tenken::cuda::verify_blocks(elements), threads, 0, stream_->get()>>>(
                    precision.c, c_->data(), begin_c, elements, shape.m, exact.data(), sign, norms_a.data(),
                    norms_b.data(), bound, found.data());
                TENKEN_CUDA(cudaGetLastError());
            }
        }
        stream_->synchronize();
        TENKEN_CUDA(cudaMemcpy(&result, found.data(), sizeof result, cudaMemcpyDeviceToHost));
        tenken::Check check;
        check.of = catalogue::product();
        check.error = tenken::double_of_bits(result.largest_error_bits);
        if (result.first_wrong != ~0ULL) {
            DeviceArray<double> value(1);
            double there = 0;
            load_value<<<1, 1, 0, stream_->get()>>>(
                precision.c, c_->data(), static_cast<std::size_t>(result.first_wrong), value.data());
            TENKEN_CUDA(cudaGetLastError());
            stream_->synchronize();
            TENKEN_CUDA(cudaMemcpy(&there, value.data(), sizeof there, cudaMemcpyDeviceToHost));
            check.first_wrong = tenken::Json::object().set("element", result.first_wrong);
            check.first_wrong.set("value", tenken::number_or_name(there));
        }
        return check;
    }

    void release() override {
        plan_.reset();
        a_.reset();
        b_.reset();
        c_.reset();
        scales_a_.reset();
        scales_b_.reset();
        candidates_.clear();
        contenders_.clear();
    }

    tenken::Meter* energy() override { return &gpu_.energy(); }
    void begin_timed() override { gpu_.health().start(); }
    void end_timed() override { gpu_.health().stop(); }

    static std::string version() {
        const std::size_t number = cublasLtGetVersion();
        return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
               std::to_string(number % 100);
    }

  private:
    void open() {
        unsetenv("CUBLAS_EMULATE_DOUBLE_PRECISION");  // would compute doubles from integers
        unsetenv("CUBLAS_EMULATE_SINGLE_PRECISION");
        stream_.reset(new tenken::cuda::Stream);
        TENKEN_CUBLAS(cublasLtCreate(&library_));
        TENKEN_CUBLAS(cublasCreate(&blas_));
        TENKEN_CUBLAS(cublasSetStream(blas_, stream_->get()));
        workspace_.reset(new DeviceArray<char>(workspace_bytes));
    }

    /// Formats that the GPU's tensor cores lack are not queried; the library may reject others.
    const char* too_old(const Precision& precision) const {
        const double capability = std::atof(gpu_.description().compute_capability.c_str());
        const bool fp8 = precision.a == Element::e4m3 || precision.a == Element::e5m2;
        if (precision.a == Element::e2m1 && capability < 10) return "FP4 needs compute capability 10.0";
        if ((precision.scales == Scales::ue8m0_32 || precision.scales == Scales::ue4m3_16) && capability < 10)
            return "scales of 16 or 32 need compute capability 10.0";
        if (fp8 && capability < 8.9) return "FP8 needs compute capability 8.9";
        if ((precision.units == Units::tensor || precision.a == Element::tf32) && capability < 8)
            return "tensor cores of FP64 and TF32 need compute capability 8.0";
        if (precision.a == Element::bf16 && capability < 8) return "BF16 needs compute capability 8.0";
        return nullptr;
    }

    /// All scales of an operand are equal, so that any layout of them is correct; their values are not 1.
    void make_scales() {
        const Precision& precision = *case_.precision;
        if (precision.scales == Scales::none) return;
        const auto up = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by * by; };
        for (const bool is_a : {true, false}) {
            const std::int64_t outer = up(is_a ? case_.shape.m : case_.shape.n, 128);
            std::unique_ptr<DeviceArray<char>>& scales = is_a ? scales_a_ : scales_b_;
            const double value = is_a ? scale_a : scale_b;
            if (precision.scales == Scales::fp32_blocks) {
                const std::size_t count = static_cast<std::size_t>(outer * up(case_.shape.k, 512) / 128);
                scales.reset(new DeviceArray<char>(4 * count));
                fill_floats<<<blocks_for(count), threads, 0, stream_->get()>>>(
                    reinterpret_cast<float*>(scales->data()), count, static_cast<float>(value));
                TENKEN_CUDA(cudaGetLastError());
                continue;
            }
            const bool mx = precision.scales == Scales::ue8m0_32;
            const std::int64_t block = mx ? 32 : 16;
            scales.reset(
                new DeviceArray<char>(static_cast<std::size_t>(outer * up(case_.shape.k / block + 1, 4))));
            // UE8M0 is 2^(code - 127); E4M3 as in its own format.
            const int code = mx ? 127 + std::ilogb(value)
                                : static_cast<int>(tenken::encoded(value, tenken::formats::e4m3(), 4));
            TENKEN_CUDA(cudaMemsetAsync(scales->data(), code, scales->bytes(), stream_->get()));
        }
    }

    void fill_operand(Element element, std::uint64_t seed, DeviceArray<char>& to) {
        const std::size_t size = element == Element::fp64                               ? 8
                                 : element == Element::fp32 || element == Element::tf32 ? 4
                                 : element == Element::fp16 || element == Element::bf16 ? 2
                                                                                        : 1;
        const std::size_t count = to.bytes() / size;
        fill_kernel<<<blocks_for(count), threads, 0, stream_->get()>>>(element, seed, count, to.data());
        TENKEN_CUDA(cudaGetLastError());
    }

    void reset() {
        TENKEN_CUDA(
            cudaMemsetAsync(c_->data(), case_.precision->adds ? 0 : poison, c_->bytes(), stream_->get()));
    }

    [[noreturn]] void refuse() const {
        throw std::runtime_error(case_.text() + ": cuBLASLt refuses all of the algorithms it proposes");
    }

    cublasStatus_t launch() {
        return plan_->run(library_, a_->data(), b_->data(), c_->data(), candidates_[chosen_],
                          workspace_->data(), stream_->get());
    }

    /// By events, mean of `count` products.
    double seconds_of(long count) {
        tenken::cuda::Event start;
        tenken::cuda::Event stop;
        start.record(*stream_);
        for (long i = 0; i < count; ++i) TENKEN_CUBLAS(launch());
        stop.record(*stream_);
        stream_->synchronize();
        return stop.seconds_since(start) / static_cast<double>(count);
    }

    /// Seconds of one product of a candidate that has the GPU to itself: the median of the batches after the
    /// limiter has settled, because its oscillations affect some of them.
    double alone(std::size_t contender) {
        chosen_ = contenders_[contender];
        std::vector<double> each;
        for (const Batch& batch : run_for(stretch_seconds_)) {
            if (batch.begin < settling_seconds && batch.begin + batch.seconds < stretch_seconds_) continue;
            each.push_back(batch.seconds / static_cast<double>(batch.count));
        }
        return tenken::median(each);
    }

    std::size_t place_of(std::size_t candidate) const {
        return static_cast<std::size_t>(std::find(contenders_.begin(), contenders_.end(), candidate) -
                                        contenders_.begin());
    }

    std::string describe_chosen() const {
        int id = 0;
        int tile = 0;
        int stages = 0;
        int split = 0;
        std::size_t written = 0;
        const cublasLtMatmulAlgo_t& algorithm = candidates_[chosen_];
        const std::pair<cublasLtMatmulAlgoConfigAttributes_t, int*> wanted[] = {
            {CUBLASLT_ALGO_CONFIG_ID, &id},
            {CUBLASLT_ALGO_CONFIG_TILE_ID, &tile},
            {CUBLASLT_ALGO_CONFIG_STAGES_ID, &stages},
            {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split}};
        std::string text;
        const char* const names[] = {"algorithm ", ", tile ", ", stages ", ", split k "};
        for (int i = 0; i < 4; ++i) {
            if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, wanted[i].first, wanted[i].second,
                                                     sizeof(int), &written) != CUBLAS_STATUS_SUCCESS)
                continue;
            text += names[i] + std::to_string(*wanted[i].second);
        }
        return text;
    }

    /// Columns of C that are compared at a time.
    std::int64_t reference_columns() const {
        const auto fits = static_cast<std::int64_t>(reference_bytes / 8) / case_.shape.m;
        return std::max<std::int64_t>(16, std::min(case_.shape.n, fits / 16 * 16));
    }

    void expand(Element element, std::uint64_t seed, std::size_t first, std::size_t count, double factor,
                DeviceArray<double>& to) {
        expand_kernel<<<blocks_for(count), threads, 0, stream_->get()>>>(element, seed, first, count, factor,
                                                                         to.data());
        TENKEN_CUDA(cudaGetLastError());
    }

    void multiply_reference(const DeviceArray<double>& a, const DeviceArray<double>& b, std::int64_t count,
                            DeviceArray<double>& c) {
        const Shape& shape = case_.shape;
        if (case_.precision->a == Element::fp64) {
            const auto tiles = [](std::int64_t size) {
                return static_cast<unsigned>((size + reference_tile - 1) / reference_tile);
            };
            reference_kernel<<<dim3(tiles(shape.m), tiles(count)), dim3(reference_tile, reference_tile), 0,
                               stream_->get()>>>(a.data(), b.data(), shape.m, count, shape.k, c.data());
            TENKEN_CUDA(cudaGetLastError());
            return;
        }
        const double one = 1;
        const double zero = 0;
        const bool transposed = plan_->transposed();
        TENKEN_CUBLAS(cublasDgemm(blas_, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N,
                                  static_cast<int>(shape.m), static_cast<int>(count),
                                  static_cast<int>(shape.k), &one, a.data(),
                                  static_cast<int>(transposed ? shape.k : shape.m), b.data(),
                                  static_cast<int>(shape.k), &zero, c.data(), static_cast<int>(shape.m)));
    }

    void corrupt(const DeviceArray<double>& exact, double sign, const DeviceArray<double>& norms_a,
                 const DeviceArray<double>& norms_b, const Bound& bound, std::size_t begin_c,
                 std::int64_t column) {
        const std::int64_t row = case_.shape.m - 1;
        const std::size_t place = static_cast<std::size_t>(column * case_.shape.m + row);
        stream_->synchronize();
        double value = 0;
        double norm_a = 0;
        double norm_b = 0;
        TENKEN_CUDA(cudaMemcpy(&value, exact.data() + place, sizeof value, cudaMemcpyDeviceToHost));
        TENKEN_CUDA(cudaMemcpy(&norm_a, norms_a.data() + row, sizeof norm_a, cudaMemcpyDeviceToHost));
        TENKEN_CUDA(cudaMemcpy(&norm_b, norms_b.data() + column, sizeof norm_b, cudaMemcpyDeviceToHost));
        corrupt_kernel<<<1, 1, 0, stream_->get()>>>(case_.precision->c, c_->data(), begin_c + place,
                                                    sign * value, norm_a, norm_b, bound);
        TENKEN_CUDA(cudaGetLastError());
    }

    tenken::cuda::Gpu& gpu_;
    Case case_ = {nullptr, {}};
    cublasLtHandle_t library_ = nullptr;
    cublasHandle_t blas_ = nullptr;
    std::unique_ptr<tenken::cuda::Stream> stream_;
    std::unique_ptr<DeviceArray<char>> workspace_;
    std::unique_ptr<Plan> plan_;
    std::unique_ptr<DeviceArray<char>> scales_a_;
    std::unique_ptr<DeviceArray<char>> scales_b_;
    std::unique_ptr<DeviceArray<char>> a_;
    std::unique_ptr<DeviceArray<char>> b_;
    std::unique_ptr<DeviceArray<char>> c_;
    std::vector<cublasLtMatmulAlgo_t> candidates_;
    std::vector<std::size_t> contenders_;
    std::unique_ptr<tenken::Stretches> stretches_;
    double stretch_seconds_ = 0;
    std::size_t chosen_ = 0;
    double call_seconds_ = 1e-3;
};

class CudaFamily : public Family {
  public:
    std::string name() const override { return "cuda"; }

    void options(tenken::Arguments& arguments) override {
        arguments.heading("back end cuda");
        gpus_.options(arguments);
    }

    std::vector<std::unique_ptr<Place>> places(const tenken::Arguments& arguments) override {
        gpus_.prepare(arguments);
        std::vector<std::unique_ptr<Place>> list;
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list())
            list.emplace_back(new GpuPlace(*gpu));
        return list;
    }

    bool at_once() const override { return gpus_.at_once(); }

    void describe(tenken::Document& document) override {
        document.build.libraries.emplace_back("cuBLASLt", GpuPlace::version());
        document.path("fp64_emulation", "off");
        gpus_.report(document);
    }

  private:
    tenken::cuda::Gpus gpus_;
};

}  // namespace

std::unique_ptr<Family> make_cuda_family() {
    return std::unique_ptr<Family>(new CudaFamily);
}

}  // namespace gemm
