// Products by cuBLASLt: C of m x n column by column, A m x k and B n x k row by row.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/cuda/library.h"
#include "lib/cuda/timing.h"
#include "programs/burn/burner.h"

namespace burn {

/// The library's descriptors of one product, and the algorithm that was the fastest of those it proposed.
class LibraryProduct {
  public:
    static constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

    LibraryProduct(const Format& format, const Shape& shape) {
        cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
        cudaDataType_t scale = CUDA_R_32F;
        one_.single = 1;
        zero_.single = 0;
        if (format.operand == Operand::fp64) {
            compute = CUBLAS_COMPUTE_64F;
            scale = CUDA_R_64F;
            one_.real = 1;
            zero_.real = 0;
        } else if (format.operand == Operand::int8) {
            compute = CUBLAS_COMPUTE_32I;
            scale = CUDA_R_32I;
            one_.whole = 1;
            zero_.whole = 0;
        } else if (format.operand == Operand::tf32) {
            compute = CUBLAS_COMPUTE_32F_FAST_TF32;
        }
        const cudaDataType_t of_operands = type_of(format.operand);
        TENKEN_CUBLAS(cublasLtMatmulDescCreate(&operation_, compute, scale));
        const cublasOperation_t transposed = CUBLAS_OP_T;
        TENKEN_CUBLAS(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                                     sizeof transposed));
        TENKEN_CUBLAS(cublasLtMatrixLayoutCreate(&a_, of_operands, shape.k, shape.m, shape.k));
        TENKEN_CUBLAS(cublasLtMatrixLayoutCreate(&b_, of_operands, shape.k, shape.n, shape.k));
        const cudaDataType_t of_result = format.result == Result::fp64   ? CUDA_R_64F
                                         : format.result == Result::fp32 ? CUDA_R_32F
                                                                         : CUDA_R_32I;
        TENKEN_CUBLAS(cublasLtMatrixLayoutCreate(&c_, of_result, shape.m, shape.n, shape.m));
        TENKEN_CUBLAS(cublasLtMatmulPreferenceCreate(&preference_));
        const std::size_t bytes = workspace_bytes;
        TENKEN_CUBLAS(cublasLtMatmulPreferenceSetAttribute(
            preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    }
    ~LibraryProduct() {
        cublasLtMatmulPreferenceDestroy(preference_);
        for (cublasLtMatrixLayout_t one : {a_, b_, c_}) cublasLtMatrixLayoutDestroy(one);
        cublasLtMatmulDescDestroy(operation_);
    }
    LibraryProduct(const LibraryProduct&) = delete;
    LibraryProduct& operator=(const LibraryProduct&) = delete;

    /// Tries the library's first proposals, and keeps the fastest.
    /// @throws std::runtime_error if it has none
    void choose(cublasLtHandle_t library, const void* a, const void* b, void* c, void* workspace,
                const tenken::cuda::Stream& stream) {
        constexpr int wanted = 8;
        cublasLtMatmulHeuristicResult_t proposed[wanted];
        int count = 0;
        TENKEN_CUBLAS(cublasLtMatmulAlgoGetHeuristic(library, operation_, a_, b_, c_, c_, preference_, wanted,
                                                     proposed, &count));
        double best = 0;
        tenken::cuda::Event start;
        tenken::cuda::Event stop;
        for (int i = 0; i < count; ++i) {
            if (proposed[i].state != CUBLAS_STATUS_SUCCESS) continue;
            const cublasLtMatmulAlgo_t before = algorithm_;
            algorithm_ = proposed[i].algo;
            bool refused = run(library, a, b, c, workspace, stream.get()) != CUBLAS_STATUS_SUCCESS;
            start.record(stream);
            for (int turn = 0; turn < 2 && !refused; ++turn)
                refused = run(library, a, b, c, workspace, stream.get()) != CUBLAS_STATUS_SUCCESS;
            stop.record(stream);
            stream.synchronize();
            const double seconds = stop.seconds_since(start);
            if (refused || (best > 0 && seconds >= best))
                algorithm_ = before;
            else
                best = seconds;
        }
        if (best <= 0) throw std::runtime_error("cuBLASLt has no algorithm for this product");
    }

    void multiply(cublasLtHandle_t library, const void* a, const void* b, void* c, void* workspace,
                  cudaStream_t stream) const {
        TENKEN_CUBLAS(run(library, a, b, c, workspace, stream));
    }

    static cudaDataType_t type_of(Operand operand) {
        switch (operand) {
            case Operand::fp64:
                return CUDA_R_64F;
            case Operand::tf32:
                return CUDA_R_32F;
            case Operand::fp16:
                return CUDA_R_16F;
            case Operand::bf16:
                return CUDA_R_16BF;
            case Operand::e4m3:
#if CUDART_VERSION >= 11080
                return CUDA_R_8F_E4M3;
#else
                break;
#endif
            case Operand::int8:
                return CUDA_R_8I;
        }
        return CUDA_R_8I;
    }

  private:
    cublasStatus_t run(cublasLtHandle_t library, const void* a, const void* b, void* c, void* workspace,
                       cudaStream_t stream) const {
        return cublasLtMatmul(library, operation_, &one_, a, a_, b, b_, &zero_, c, c_, c, c_, &algorithm_,
                              workspace, workspace_bytes, stream);
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
    cublasLtMatmulAlgo_t algorithm_ = {};
    Factor one_;
    Factor zero_;
};

}  // namespace burn
