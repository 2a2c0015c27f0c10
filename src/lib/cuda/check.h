// Every call of the CUDA runtime is checked: a failure ends the run with one line.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace tenken {
namespace cuda {

/// A call of the CUDA runtime failed. The text contains the expression, the error, file and line, host, rank
/// (if a launcher has set one) and GPU.
class CudaError : public std::runtime_error {
  public:
    CudaError(cudaError_t code, const std::string& what) : std::runtime_error(what), code_(code) {}
    cudaError_t code() const { return code_; }

  private:
    cudaError_t code_;
};

/// @throws CudaError always
[[noreturn]] void fail(cudaError_t code, const char* expression, const char* file, int line);

/// "12.4" for 12040, the form of cudaDriverGetVersion and CUDART_VERSION.
std::string version_text(int version);

}  // namespace cuda
}  // namespace tenken

/// TENKEN_CUDA(cudaMalloc(&p, n)); after a kernel launch: TENKEN_CUDA(cudaGetLastError()).
#define TENKEN_CUDA(call)                                                        \
    do {                                                                         \
        const cudaError_t tenken_cuda_result = (call);                           \
        if (tenken_cuda_result != cudaSuccess) {                                 \
            ::tenken::cuda::fail(tenken_cuda_result, #call, __FILE__, __LINE__); \
        }                                                                        \
    } while (false)
