// copy_value() for the device.
#pragma once

#include "lib/base/copy_values.h"

namespace tenken {
namespace cuda {

/// tenken::copy_value() of one pattern, written for the device.
struct CopyValues {
    int pattern;
    __host__ __device__ double operator()(std::size_t i) const {
        return static_cast<double>(pattern) + static_cast<double>(i % copy_period) / 1024.0;
    }
};

}  // namespace cuda
}  // namespace tenken
