#include "programs/hpl_mxp/low_products.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lib/base/stretches.h"

namespace mxp {

namespace {

/// Algorithms requested from the library, and how many of the fastest are compared.
constexpr int maximum_algorithms = 16;
constexpr std::size_t finalists = 3;
/// A single product may be too short for events; this is the minimum duration.
constexpr double turn_seconds = 0.002;
/// Number of rows from which a solution takes many seconds, mostly at the power cap. Each algorithm then has
/// the GPU to itself, first until the power limiter has settled, then for a period of its oscillation.
constexpr std::int64_t rows_at_the_cap = 65536;
constexpr double settling_seconds = 0.25;
constexpr double stretch_seconds = 0.75;

/// The library's description of one product.
class Described {
  public:
    explicit Described(const LowProduct& product) {
        const bool fp8 = product.kind.low == Low::fp8;
        const auto m = static_cast<std::uint64_t>(product.kind.rows);
        const auto n = static_cast<std::uint64_t>(product.columns);
        const auto k = static_cast<std::uint64_t>(product.kind.k);
        cudaDataType_t type = product.kind.low == Low::bf16 ? CUDA_R_16BF : CUDA_R_16F;
#if CUDART_VERSION >= 11080
        if (fp8) type = CUDA_R_8F_E4M3;
#else
        if (fp8) throw std::runtime_error("FP8 needs CUDA 11.8");
#endif
        const cublasOperation_t of_l = fp8 ? CUBLAS_OP_T : CUBLAS_OP_N;
        TENKEN_CUBLAS(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        TENKEN_CUBLAS(
            cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &of_l, sizeof of_l));
#if CUDART_VERSION >= 11080
        const auto target = static_cast<std::int32_t>(product.kind.multiprocessors);
        TENKEN_CUBLAS(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target,
                                                     sizeof target));
#endif
        TENKEN_CUBLAS(cublasLtMatrixLayoutCreate(&l, type, fp8 ? k : m, fp8 ? m : k, product.l_ld));
        TENKEN_CUBLAS(cublasLtMatrixLayoutCreate(&u, type, k, n, product.u_ld));
        TENKEN_CUBLAS(cublasLtMatrixLayoutCreate(&c, CUDA_R_32F, m, n, product.c_ld));
    }
    ~Described() {
        for (cublasLtMatrixLayout_t one : {l, u, c})
            if (one != nullptr) cublasLtMatrixLayoutDestroy(one);
        if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
    }
    Described(const Described&) = delete;
    Described& operator=(const Described&) = delete;

    std::vector<cublasLtMatmulAlgo_t> propose(cublasLtHandle_t library, int wanted) const {
        std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(wanted));
        cublasLtMatmulPreference_t preference = nullptr;
        TENKEN_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
        const std::size_t bytes = lu::workspace_bytes;
        int count = 0;
        cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
        if (status == CUBLAS_STATUS_SUCCESS)
            status = cublasLtMatmulAlgoGetHeuristic(library, operation, l, u, c, c, preference, wanted,
                                                    results.data(), &count);
        cublasLtMatmulPreferenceDestroy(preference);
        std::vector<cublasLtMatmulAlgo_t> found;
        if (status != CUBLAS_STATUS_SUCCESS) return found;
        for (int i = 0; i < count; ++i) {
            const cublasLtMatmulHeuristicResult_t& one = results[static_cast<std::size_t>(i)];
            if (one.state == CUBLAS_STATUS_SUCCESS && one.workspaceSize <= lu::workspace_bytes)
                found.push_back(one.algo);
        }
        return found;
    }

    cublasStatus_t run(cublasLtHandle_t library, const cublasLtMatmulAlgo_t& algorithm, float factor,
                       const void* of_l, const void* of_u, float* of_c, LaneParts& parts) const {
        const float one = 1;
        return cublasLtMatmul(library, operation, &factor, of_l, l, of_u, u, &one, of_c, c, of_c, c,
                              &algorithm, parts.blas.workspace(), lu::workspace_bytes, parts.stream.get());
    }

    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t l = nullptr;
    cublasLtMatrixLayout_t u = nullptr;
    cublasLtMatrixLayout_t c = nullptr;
};

}  // namespace

void LowProducts::choose(const LowProduct& product, const void* l, const void* u, float* c,
                         LaneParts& parts) {
    const Described described(product);
    const std::vector<cublasLtMatmulAlgo_t> proposed = described.propose(library_, maximum_algorithms);
    tenken::cuda::Event begin;
    tenken::cuda::Event end;
    const auto run = [&](std::size_t which) {
        return described.run(library_, proposed[which], product.factor, l, u, c, parts) ==
               CUBLAS_STATUS_SUCCESS;
    };
    const auto seconds = [&](std::size_t which, int times) {
        begin.record(parts.stream);
        for (int i = 0; i < times; ++i)
            if (!run(which)) throw std::runtime_error("cuBLASLt rejects a product that it has just computed");
        end.record(parts.stream);
        parts.stream.synchronize();
        return end.seconds_since(begin) / times;
    };
    std::vector<std::pair<double, std::size_t>> times;
    for (std::size_t i = 0; i < proposed.size(); ++i) {
        if (!run(i)) continue;  // proposed, but refused
        parts.stream.synchronize();
        times.emplace_back(seconds(i, 1), i);
    }
    if (times.empty()) return;
    const std::size_t first = times.front().second;
    std::sort(times.begin(), times.end());
    // the library's first proposal remains one of them
    times.erase(
        std::remove_if(times.begin() + static_cast<std::ptrdiff_t>(std::min(finalists, times.size())),
                       times.end(),
                       [&](const std::pair<double, std::size_t>& one) { return one.second != first; }),
        times.end());
    const auto place =
        std::find_if(times.begin(), times.end(),
                     [&](const std::pair<double, std::size_t>& one) { return one.second == first; });
    const auto of_first = static_cast<std::size_t>(place - times.begin());
    const auto in = [&](double wanted, std::size_t i) {
        return static_cast<int>(std::ceil(wanted / std::max(times[i].first, 1e-6)));
    };
    const bool at_the_cap = product.kind.rows >= rows_at_the_cap;
    const auto alone = [&](std::size_t i) {
        if (at_the_cap) seconds(times[i].second, in(settling_seconds, i));
        return seconds(times[i].second, in(at_the_cap ? stretch_seconds : turn_seconds, i));
    };
    tenken::Stretches stretches(times.size());
    stretches.run(alone);
    stretches.again(alone);
    const std::size_t best = stretches.best(of_first);
    tried_.push_back(product.kind);
    chosen_.push_back(proposed[times[best].second]);
    char text[120];
    std::snprintf(text, sizeof text, "%s%lld rows, k %lld%s: number %zu of %zu, %.3f of the first",
                  text_.empty() ? "" : "; ", static_cast<long long>(product.kind.rows),
                  static_cast<long long>(product.kind.k),
                  product.kind.multiprocessors > 0 ? " during a panel" : "", times[best].second + 1,
                  proposed.size(), stretches.ratio(best, of_first));
    text_ += text;
}

bool LowProducts::multiply_as_tried(const LowProduct& product, const void* l, const void* u, float* c,
                                    LaneParts& parts) {
    const std::size_t which = closest(tried_, product.kind);
    if (which == tried_.size()) return false;
    return Described(product).run(library_, chosen_[which], product.factor, l, u, c, parts) ==
           CUBLAS_STATUS_SUCCESS;
}

bool LowProducts::multiply_as_proposed(const LowProduct& product, const void* l, const void* u, float* c,
                                       LaneParts& parts) {
    const Described described(product);
    const std::vector<cublasLtMatmulAlgo_t> proposed = described.propose(library_, 1);
    return !proposed.empty() &&
           described.run(library_, proposed.front(), product.factor, l, u, c, parts) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace mxp
