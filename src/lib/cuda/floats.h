// Arrays of floats in any kind of memory; their owners need not distinguish them.
#pragma once

#include <memory>

#include "lib/base/copy_values.h"
#include "lib/cuda/memory.h"

namespace tenken {
namespace cuda {

typedef std::shared_ptr<float> Floats;

/// @tparam Memory DeviceMemory, PinnedMemory or ManagedMemory
template <typename Memory>
Floats make_floats(std::size_t elements) {
    const auto array = std::make_shared<Array<float, Memory>>(elements);
    return Floats(array, array->data());
}

inline Floats pageable_floats(std::size_t elements) {
    const Buffer array = allocate_pageable(elements / 2 + 1);
    return Floats(array, reinterpret_cast<float*>(array.get()));
}

}  // namespace cuda
}  // namespace tenken
