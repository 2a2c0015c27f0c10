// SpMV by cuSPARSE, behind an interface that also exists without it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/cuda/timing.h"
#include "lib/sparse/csr.h"
#include "programs/spmv/csr_view.h"

namespace spmv {

/// A product prepared by a library.
class VendorProduct {
  public:
    virtual ~VendorProduct() = default;
    virtual void enqueue() = 0;
    virtual double traffic_bytes() const = 0;
    virtual double padding() const { return 1; }
};

/// "cusparse_csr_alg1" and so on, or "cusparse_csrmv" of CUDA 8 to 10; none in a build without cuSPARSE.
std::vector<std::string> vendor_variants();
/// "12.6.3", or why it is not available.
std::string vendor_version();

/// @param why set to the reason if the variant does not fit the matrix; then null is returned
template <typename T>
std::unique_ptr<VendorProduct> make_vendor_product(const std::string& variant, const sparse::Csr& matrix,
                                                   const CsrView<T>& view, T* x, T* y,
                                                   const tenken::cuda::Stream& stream, std::string& why);

}  // namespace spmv
