#include "lib/file_io/cuda/staging.h"

#include <cuda_runtime.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "lib/cuda/check.h"

namespace file_io {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

bool takes_registered_memory() {
    int device = 0;
    int can = 0;
    TENKEN_CUDA(cudaGetDevice(&device));
    TENKEN_CUDA(cudaDeviceGetAttribute(&can, cudaDevAttrCanUseHostPointerForRegisteredMem, device));
    return can != 0;
}

}  // namespace

Staging::Staging(std::size_t bytes) : size_((bytes + huge_page - 1) / huge_page * huge_page) {
    if (takes_registered_memory()) {
        void* memory = nullptr;
        if (posix_memalign(&memory, huge_page, size_) != 0) throw std::bad_alloc();
        madvise(memory, size_, MADV_HUGEPAGE);
        std::memset(memory, 0, size_);
        registered_ = cudaHostRegister(memory, size_, cudaHostRegisterDefault) == cudaSuccess;
        if (registered_) {
            data_ = static_cast<char*>(memory);
            return;
        }
        cudaGetLastError();
        std::free(memory);
    }
    TENKEN_CUDA(cudaMallocHost(reinterpret_cast<void**>(&data_), size_));
}

Staging::~Staging() {
    if (!registered_) {
        cudaFreeHost(data_);
        return;
    }
    cudaHostUnregister(data_);
    std::free(data_);
}

std::string Staging::describe() {
    return takes_registered_memory() ? "cudaHostRegister, huge pages requested"
                                     : "cudaMallocHost: the GPU does not accept registered memory";
}

}  // namespace file_io
