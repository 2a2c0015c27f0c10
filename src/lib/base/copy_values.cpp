#include "lib/base/copy_values.h"

#include <cstdlib>
#include <new>

namespace tenken {

Buffer allocate_pageable(std::size_t elements) {
    constexpr std::size_t alignment = 4096;  // alignment for streaming copies; malloc guarantees only 16
    const std::size_t bytes = (elements * sizeof(double) + alignment - 1) / alignment * alignment;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes) != 0) throw std::bad_alloc();
    return Buffer(static_cast<double*>(memory), [](double* array) { std::free(array); });
}

}  // namespace tenken
