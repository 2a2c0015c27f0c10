// Resources of a lane of the factorisation on its GPU: a stream, cuBLAS on it, and memory.
#pragma once

#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "programs/hpl/gpu_library.h"

namespace hpl {

constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

/// cuBLAS on one stream, with a separate workspace.
class Blas {
  public:
    explicit Blas(cudaStream_t stream) : workspace_(workspace_bytes) {
        HPL_CUBLAS(cublasCreate(&handle_));
        HPL_CUBLAS(cublasSetStream(handle_, stream));
#if CUDART_VERSION >= 11000
        HPL_CUBLAS(cublasSetWorkspace(handle_, workspace_.data(), workspace_bytes));
#endif
        HPL_CUBLAS(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH));  // no emulation of FP64
    }
    ~Blas() { cublasDestroy(handle_); }
    Blas(const Blas&) = delete;
    Blas& operator=(const Blas&) = delete;
    cublasHandle_t get() const { return handle_; }

  private:
    tenken::cuda::DeviceArray<char> workspace_;
    cublasHandle_t handle_ = nullptr;
};

/// The private data of one lane.
struct LaneParts {
    LaneParts(bool high, std::int64_t columns, std::int64_t rows, std::int64_t result_rows)
        : stream(high ? tenken::cuda::Stream::Priority::high : tenken::cuda::Stream::Priority::normal),
          blas(stream.get()),
          gathered(static_cast<std::size_t>(columns * rows)),
          result(static_cast<std::size_t>(columns * result_rows + 1)) {}
    tenken::cuda::Stream stream;
    Blas blas;
    tenken::cuda::DeviceArray<double> gathered;  ///< rows that move to the top (and that leave it)
    tenken::cuda::DeviceArray<double> result;    ///< rows of U, if they are not in A itself
};

}  // namespace hpl
