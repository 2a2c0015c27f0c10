// cuBLASLt's types for the precisions, and its descriptors of one product.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "lib/base/optional.h"
#include "lib/cuda/devices.h"
#include "lib/cuda/library.h"
#include "programs/gemm/precision.h"

namespace gemm {

constexpr std::size_t workspace_bytes = std::size_t{64} << 20;
/// Number of algorithms requested from the library.
constexpr int max_algorithms = 64;

/// The library's type of an element; absent if its headers have none.
inline tenken::Optional<cudaDataType_t> type_of(Element element) {
    switch (element) {
        case Element::fp64:
            return CUDA_R_64F;
        case Element::fp32:
        case Element::tf32:
            return CUDA_R_32F;
        case Element::fp16:
            return CUDA_R_16F;
        case Element::bf16:
            return CUDA_R_16BF;
        case Element::int8:
            return CUDA_R_8I;
        case Element::e4m3:
#if CUDART_VERSION >= 11080
            return CUDA_R_8F_E4M3;
#else
            return {};
#endif
        case Element::e5m2:
#if CUDART_VERSION >= 11080
            return CUDA_R_8F_E5M2;
#else
            return {};
#endif
        case Element::e2m1:
#if CUDART_VERSION >= 12080
            return CUDA_R_4F_E2M1;
#else
            return {};
#endif
    }
    return {};
}

inline cudaDataType_t type_of(Output output) {
    switch (output) {
        case Output::fp64:
            return CUDA_R_64F;
        case Output::fp32:
            return CUDA_R_32F;
        case Output::fp16:
            return CUDA_R_16F;
        case Output::bf16:
            return CUDA_R_16BF;
        case Output::int32:
            return CUDA_R_32I;
    }
    return CUDA_R_64F;
}

/// cuBLASLt's descriptors of one product.
class Plan {
  public:
    Plan() = default;
    ~Plan() {
        if (preference_ != nullptr) cublasLtMatmulPreferenceDestroy(preference_);
        for (cublasLtMatrixLayout_t one : {a_, b_, c_}) {
            if (one != nullptr) cublasLtMatrixLayoutDestroy(one);
        }
        if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
    }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;

    /// A is k x m and transposed, or m x k as in an LU, where products are accumulated; B is k x n;
    /// column-major.
    /// @return the reason of a failure; empty if it was created
    std::string make(const Case& one, const void* scales_a, const void* scales_b) {
        const Precision& precision = *one.precision;
        const Shape& shape = one.shape;
        const tenken::Optional<cudaDataType_t> a = type_of(precision.a);
        const tenken::Optional<cudaDataType_t> b = type_of(precision.b);
        if (!a || !b) return "CUDA " + tenken::cuda::version_text(CUDART_VERSION) + " has no such type";
        cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
        cudaDataType_t scale = CUDA_R_32F;
        if (precision.a == Element::fp64) {
            compute = CUBLAS_COMPUTE_64F;
            scale = CUDA_R_64F;
        } else if (precision.a == Element::int8) {
            compute = CUBLAS_COMPUTE_32I;
            scale = CUDA_R_32I;
        } else if (precision.a == Element::tf32) {
            compute = CUBLAS_COMPUTE_32F_FAST_TF32;
        }
        TENKEN_CUBLAS(cublasLtMatmulDescCreate(&operation_, compute, scale));
        transposed_ = is_transposed(precision);
        const cublasOperation_t of_a = transposed_ ? CUBLAS_OP_T : CUBLAS_OP_N;
        TENKEN_CUBLAS(
            cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &of_a, sizeof of_a));
        std::string why_not = set_fp8(precision, scales_a, scales_b);
        if (!why_not.empty()) return why_not;
        const auto m = static_cast<std::uint64_t>(shape.m);
        const auto n = static_cast<std::uint64_t>(shape.n);
        const auto k = static_cast<std::uint64_t>(shape.k);
        TENKEN_CUBLAS(cublasLtMatrixLayoutCreate(&a_, *a, transposed_ ? k : m, transposed_ ? m : k,
                                                 transposed_ ? shape.k : shape.m));
        TENKEN_CUBLAS(cublasLtMatrixLayoutCreate(&b_, *b, k, n, shape.k));
        TENKEN_CUBLAS(cublasLtMatrixLayoutCreate(&c_, type_of(precision.c), m, n, shape.m));
        if (shape.batch > 1) {
            const auto count = static_cast<std::int32_t>(shape.batch);
            const std::int64_t apart[] = {shape.m * shape.k, shape.k * shape.n, shape.m * shape.n};
            const cublasLtMatrixLayout_t layouts[] = {a_, b_, c_};
            for (int i = 0; i < 3; ++i) {
                TENKEN_CUBLAS(cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                               &count, sizeof count));
                TENKEN_CUBLAS(cublasLtMatrixLayoutSetAttribute(
                    layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart[i], sizeof apart[i]));
            }
        }
        TENKEN_CUBLAS(cublasLtMatmulPreferenceCreate(&preference_));
        const std::size_t bytes = workspace_bytes;
        TENKEN_CUBLAS(cublasLtMatmulPreferenceSetAttribute(
            preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
        if (precision.units != Units::any) {
            const std::uint64_t unwanted = precision.units == Units::vector
                                               ? CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK
                                               : CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA;
            const std::uint64_t mask = ~static_cast<std::uint64_t>(unwanted);
            TENKEN_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_IMPL_MASK,
                                                               &mask, sizeof mask));
        }
        if (precision.a == Element::fp64) {
            one_.real = 1;
            zero_.real = 0;
        } else if (precision.a == Element::int8) {
            one_.whole = 1;
            zero_.whole = 0;
        } else {
            one_.single = precision.adds ? -1.0f : 1.0f;
            zero_.single = precision.adds ? 1.0f : 0.0f;
        }
        return "";
    }

    /// All algorithms proposed by the library that use the required units, the supposedly fastest
    /// first.
    std::vector<cublasLtMatmulAlgo_t> propose(cublasLtHandle_t library, Units units) const {
        std::vector<cublasLtMatmulHeuristicResult_t> results(max_algorithms);
        int count = 0;
        const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
            library, operation_, a_, b_, c_, c_, preference_, max_algorithms, results.data(), &count);
        std::vector<cublasLtMatmulAlgo_t> found;
        if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return found;
        TENKEN_CUBLAS(status);
        for (int i = 0; i < count; ++i) {
            const cublasLtMatmulHeuristicResult_t& one = results[static_cast<std::size_t>(i)];
            if (one.state != CUBLAS_STATUS_SUCCESS || one.workspaceSize > workspace_bytes) continue;
            std::uint64_t flags = 0;
            std::size_t written = 0;
            if (units != Units::any &&
                cublasLtMatmulAlgoCapGetAttribute(&one.algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags,
                                                  sizeof flags, &written) == CUBLAS_STATUS_SUCCESS) {
                const bool tensor = (flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK) != 0;
                if (tensor != (units == Units::tensor)) continue;
            }
            found.push_back(one.algo);
        }
        return found;
    }

    cublasStatus_t run(cublasLtHandle_t library, const void* a, const void* b, void* c,
                       const cublasLtMatmulAlgo_t& algorithm, void* workspace, cudaStream_t stream) const {
        return cublasLtMatmul(library, operation_, &one_, a, a_, b, b_, &zero_, c, c_, c, c_, &algorithm,
                              workspace, workspace_bytes, stream);
    }

    static bool is_transposed(const Precision& precision) {
        // FP8 and FP4 support no other layout; accumulation into C has the layout of the update of an LU.
        return !(precision.adds && (precision.a == Element::fp16 || precision.a == Element::bf16));
    }
    bool transposed() const { return transposed_; }

  private:
    /// @return why the headers or the library do not support this precision
    std::string set_fp8(const Precision& precision, const void* scales_a, const void* scales_b) {
        (void)scales_a;
        (void)scales_b;
#if CUDART_VERSION >= 11080
        if (precision.sums == Sums::fp8_fast) {
            const std::int8_t fast = 1;
            TENKEN_CUBLAS(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
                                                         sizeof fast));
        }
#endif
        if (precision.scales == Scales::none) return "";
#if CUDART_VERSION >= 12090
        cublasLtMatmulMatrixScale_t mode_a = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
        cublasLtMatmulMatrixScale_t mode_b = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
        if (precision.scales == Scales::ue8m0_32) mode_a = mode_b = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
        if (precision.scales == Scales::ue4m3_16) mode_a = mode_b = CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
        TENKEN_CUBLAS(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode_a,
                                                     sizeof mode_a));
        TENKEN_CUBLAS(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode_b,
                                                     sizeof mode_b));
        TENKEN_CUBLAS(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                                     &scales_a, sizeof scales_a));
        TENKEN_CUBLAS(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                                     &scales_b, sizeof scales_b));
        return "";
#else
        return "scales of blocks need CUDA 12.9, this is built with " +
               tenken::cuda::version_text(CUDART_VERSION);
#endif
    }

    union Factor {
        double real;
        float single;
        std::int32_t whole;
    };
    cublasLtMatmulDesc_t operation_ = nullptr;
    cublasLtMatrixLayout_t a_ = nullptr;
    cublasLtMatrixLayout_t b_ = nullptr;
    cublasLtMatrixLayout_t c_ = nullptr;
    cublasLtMatmulPreference_t preference_ = nullptr;
    bool transposed_ = true;
    Factor one_;
    Factor zero_;
};

}  // namespace gemm
