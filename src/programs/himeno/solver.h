// A solver of Himeno: the host with OpenMP, or a GPU with its arrays in one kind of memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "programs/himeno/grid.h"

namespace himeno {

/// The timed iterations.
struct Timing {
    std::vector<double> seconds;  ///< of `stride` iterations each
    long stride = 1;
    double total_seconds = 0;  ///< of all of them by the host's clock
    std::vector<double> gosa;  ///< of every iteration
};

/// One set of arrays, and the iterations on it.
class Solver {
  public:
    virtual ~Solver() = default;
    virtual tenken::Subject subject() const = 0;
    virtual const char* clock() const = 0;
    /// Writes all arrays for the timed part, at their origin. @return seconds for
    /// moving them to where they are used; 0 if nothing is moved
    virtual double fill(Data data) = 0;
    /// Writes all arrays for the verification, by the fastest method.
    virtual void refill(Data data) = 0;
    /// @param samples maximum number of samples, of strides of iterations
    virtual Timing iterate(long iterations, long samples) = 0;
    /// Copies the current pressure to the host. @return seconds
    virtual double fetch(float* pressure) = 0;
    virtual void begin_timed() {}
    virtual void end_timed() {}
};

std::unique_ptr<Solver> make_host_solver(const Grid& grid);

/// The part that needs a GPU.
class GpuSolvers {
  public:
    virtual ~GpuSolvers() = default;
    virtual void options(tenken::Arguments& arguments) = 0;
    virtual void prepare(const tenken::Arguments& arguments) = 0;
    virtual std::vector<tenken::DeviceDescription> descriptions() const = 0;
    /// Measures the dot bandwidth of every GPU, which gives their limit and warms them up.
    virtual std::vector<tenken::Metric> measure_dot(double warmup_seconds) = 0;
    /// The solver on one GPU (by its index in descriptions()) with arrays in "explicit", "managed" or "sam"
    /// memory.
    /// @param from_host whether explicit arrays are written by the host and copied
    virtual std::unique_ptr<Solver> make(std::size_t which, const std::string& memory, bool from_host,
                                         const Grid& grid) = 0;
    virtual void describe(tenken::Document& document) = 0;
};

/// Null in a build without CUDA.
std::unique_ptr<GpuSolvers> make_gpu_solvers();

}  // namespace himeno
