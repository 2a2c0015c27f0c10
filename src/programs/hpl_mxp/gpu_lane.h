// Resources of a lane of the factorisation on its GPU, their sizes, and errors of the libraries.
#pragma once

#include <cublas_v2.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "programs/hpl_mxp/gpu_engine.h"

namespace mxp {

using tenken::cuda::DeviceArray;
using tenken::cuda::Stream;

constexpr std::size_t workspace_bytes = std::size_t{64} << 20;

[[noreturn]] inline void library_failed(const char* library, int code, const char* expression,
                                        const char* file, int line) {
    const std::string path = file;
    const std::size_t root = path.rfind("/src/");
    throw std::runtime_error(
        std::string(library) + ": " + expression + " failed with " + std::to_string(code) + "; " +
        (root == std::string::npos ? path : path.substr(root + 1)) + ":" + std::to_string(line));
}

#define MXP_LIBRARY(name, call)                                                           \
    do {                                                                                  \
        const int mxp_result = static_cast<int>(call);                                    \
        if (mxp_result != 0) library_failed(name, mxp_result, #call, __FILE__, __LINE__); \
    } while (false)
#define MXP_CUBLAS(call) MXP_LIBRARY("cuBLAS", call)
#define MXP_CUSOLVER(call) MXP_LIBRARY("cuSOLVER", call)

inline std::size_t size(std::int64_t count) {
    return static_cast<std::size_t>(count);
}

inline std::int64_t padded(std::int64_t n) {
    return (n + gpu_tile - 1) / gpu_tile * gpu_tile;
}

/// Columns at a distance of a large power of two would share memory channels; tensor cores require
/// 128 bytes.
inline std::int64_t leading(std::int64_t rows) {
    return rows + 32;
}

inline unsigned blocks_for(std::int64_t count, std::int64_t each) {
    return static_cast<unsigned>((count + each - 1) / each);
}

/// cuBLAS on one stream, with a separate workspace; the private data of a lane.
struct LaneParts {
    LaneParts(Stream::Priority priority, std::int64_t temporary_floats, std::int64_t low_numbers)
        : stream(priority),
          workspace(workspace_bytes),
          temporary(size(temporary_floats)),
          low(size(low_numbers)) {
        MXP_CUBLAS(cublasCreate(&blas));
        MXP_CUBLAS(cublasSetStream(blas, stream.get()));
        MXP_CUBLAS(cublasSetWorkspace(blas, workspace.data(), workspace_bytes));
        MXP_CUBLAS(cublasSetMathMode(blas, CUBLAS_DEFAULT_MATH));
    }
    ~LaneParts() {
        if (blas != nullptr) cublasDestroy(blas);
    }
    LaneParts(const LaneParts&) = delete;
    LaneParts& operator=(const LaneParts&) = delete;

    Stream stream;
    DeviceArray<char> workspace;
    cublasHandle_t blas = nullptr;
    DeviceArray<float> temporary;     ///< products with an inverted triangle
    DeviceArray<unsigned short> low;  ///< rows of U, scaled and rounded
};

/// Sizes of the engines of one problem, also used for allocation.
struct Sizes {
    Sizes(std::int64_t n, std::int64_t nb, std::int64_t local_columns)
        : rows(padded(n)),
          ld(leading(rows)),
          a(ld * local_columns),
          inverses(local_columns * gpu_tile),
          slot_low(rows * nb),
          slot_bytes(2 * slot_low + 4 * nb * gpu_tile),
          temporary_update(gpu_tile * std::max<std::int64_t>(local_columns, 1)),
          temporary_panel(gpu_tile * std::max(rows, nb)),
          low_update(nb * std::max<std::int64_t>(local_columns, 1)),
          low_panel(nb * nb) {}
    std::int64_t rows, ld, a, inverses, slot_low, slot_bytes, temporary_update, temporary_panel, low_update,
        low_panel;
};

}  // namespace mxp
