// The measurements of transpose: matrices, kernels, kinds of memory, and the phases of a run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "catalogue/transpose.h"
#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/program.h"
#include "lib/base/verification.h"

namespace transpose {

/// Stored by rows.
struct Shape {
    int rows;
    int columns;

    std::size_t elements() const {
        return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
    }
    std::uint64_t bytes() const { return elements() * sizeof(float); }
    /// The coordinate of metrics: the side of a square, otherwise "ROWSxCOLUMNS".
    tenken::Json coordinate() const {
        return rows == columns ? tenken::Json(rows)
                               : tenken::Json(std::to_string(rows) + "x" + std::to_string(columns));
    }
};

/// Element `at` of the matrix to be transposed; exact in float. `run` distinguishes runs.
#ifdef __CUDACC__
__host__ __device__
#endif
    inline float value_at(std::size_t at, int run) {
    return static_cast<float>((at + 7919 * static_cast<std::size_t>(run)) % 1000003);
}

/// Writes the matrix by the host's threads.
void write_matrix(float* matrix, const Shape& shape, int run);
/// Compares a transposed matrix, element by element, by the host's threads.
tenken::ErrorScan compare_transposed(const float* transposed, const Shape& shape, int run);

/// Seconds of the phases of each repetition; empty for a phase that a kind of memory does not have.
struct Phases {
    std::vector<double> init, htod, kernel, dtoh, copy_out, check;
    tenken::ErrorScan compared = tenken::ErrorScan(catalogue::gpu().tolerance);
};

struct Task {
    Shape shape;
    std::string kernel;  ///< naive, tile or padded
    std::string memory;  ///< pageable, pinned, zero_copy, managed or sam
    long repetitions;
    bool published_init;  ///< the timed initialisation: as published, not the same work for all kinds of
                          ///< memory
    bool copy_out;        ///< copy the result to pageable memory before the host checks it
    tenken::Fault fault;
};

/// The part that needs a GPU.
class GpuTransposes {
  public:
    virtual ~GpuTransposes() = default;
    virtual void options(tenken::Arguments& arguments) = 0;
    virtual void prepare(const tenken::Arguments& arguments) = 0;
    virtual std::vector<tenken::DeviceDescription> descriptions() const = 0;
    virtual Phases run(std::size_t which, const Task& task) = 0;
    /// Bandwidths in device memory: `device_copy`, `naive_bandwidth`, `tile_bandwidth`, `padded_bandwidth`.
    virtual void measure_bandwidth(std::size_t which, const Shape& shape, long repetitions,
                                   double warmup_seconds, tenken::Document& document) = 0;
    virtual void describe(tenken::Document& document) = 0;
};

/// Null in a build without CUDA.
std::unique_ptr<GpuTransposes> make_gpu_transposes();

}  // namespace transpose
