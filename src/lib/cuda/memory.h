// Memory that frees itself: on the GPU, pinned on the host, managed.
#pragma once

#include <cstddef>

#include "lib/cuda/check.h"

namespace tenken {
namespace cuda {

/// Allocation and release of one kind of memory.
struct DeviceMemory {
    /// @throws std::runtime_error with the requested and free bytes
    static void* allocate(std::size_t bytes);
    static void free(void* memory) { cudaFree(memory); }
};
struct PinnedMemory {
    /// Page-locked host memory (cudaMallocHost). @throws CudaError
    static void* allocate(std::size_t bytes);
    static void free(void* memory) { cudaFreeHost(memory); }
};
struct ManagedMemory {
    /// cudaMallocManaged, attached globally. @throws CudaError
    static void* allocate(std::size_t bytes);
    static void free(void* memory) { cudaFree(memory); }
};

/// `size` elements of uninitialised memory, which belong to the current GPU.
template <typename T, typename Memory>
class Array {
  public:
    explicit Array(std::size_t size)
        : data_(static_cast<T*>(Memory::allocate(size * sizeof(T)))), size_(size) {}
    ~Array() { Memory::free(data_); }
    Array(Array&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    T* data() { return data_; }
    const T* data() const { return data_; }
    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(T); }

  private:
    T* data_;
    std::size_t size_;
};

template <typename T>
using DeviceArray = Array<T, DeviceMemory>;
template <typename T>
using PinnedArray = Array<T, PinnedMemory>;
template <typename T>
using ManagedArray = Array<T, ManagedMemory>;

}  // namespace cuda
}  // namespace tenken
