// Products of low precision by cuBLASLt: the fastest in a trial of all algorithms proposed by the library.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "programs/hpl_mxp/gpu_lane.h"
#include "programs/hpl_mxp/tried.h"

namespace mxp {

/// C = C + factor L U, sums and C in FP32. Column-major, except for L in E4M3 (row-major).
struct LowProduct {
    ProductKind kind;
    std::int64_t columns;
    std::int64_t l_ld, u_ld, c_ld;
    float factor;
};

class LowProducts {
  public:
    LowProducts() { TENKEN_CUBLAS(cublasLtCreate(&library_)); }
    ~LowProducts() { cublasLtDestroy(library_); }
    LowProducts(const LowProducts&) = delete;
    LowProducts& operator=(const LowProducts&) = delete;

    /// Times the library's proposals for this product and keeps the fastest for similar products.
    /// C is accumulated many times.
    void choose(const LowProduct& product, const void* l, const void* u, float* c, LaneParts& parts);
    /// By the algorithm of the closest product that was tried. @return false if there is none, or the
    /// library refuses it here
    bool multiply_as_tried(const LowProduct& product, const void* l, const void* u, float* c,
                           LaneParts& parts);
    /// By the library's first proposal. @return false if it has none
    bool multiply_as_proposed(const LowProduct& product, const void* l, const void* u, float* c,
                              LaneParts& parts);
    /// The chosen algorithms, and their gain over the first proposal.
    const std::string& text() const { return text_; }

  private:
    cublasLtHandle_t library_ = nullptr;
    std::vector<ProductKind> tried_;
    std::vector<cublasLtMatmulAlgo_t> chosen_;  ///< of each of those
    std::string text_;
};

}  // namespace mxp
