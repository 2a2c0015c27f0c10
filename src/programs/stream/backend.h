// The back ends of stream: three arrays, and the five kernels on them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/energy.h"
#include "lib/base/optional.h"
#include "lib/base/verification.h"

namespace stream {

/// In the order of a cycle.
enum class Kernel { copy, scale, add, triad, dot };
constexpr std::size_t kernel_count = 5;
enum class Array { a, b, c };

/// Limits for the size of the arrays, checked before allocation.
struct Capacity {
    tenken::Optional<std::uint64_t> cache_bytes;  ///< all last-level caches (the L2 of a GPU) together
    std::uint64_t min_default_bytes = 0;          ///< an array is at least this large by default
    unsigned default_caches = 4;                  ///< and at least this many times the cache
    std::uint64_t free_bytes = 0;                 ///< memory that can still be allocated
};

/// The five kernels run once each.
struct Cycle {
    std::array<double, kernel_count> seconds;  ///< by the clock given by clock()
    tenken::Optional<std::array<double, kernel_count>>
        host_seconds;  ///< by the host's clock, if that is another
    double dot = 0;    ///< the result of the dot kernel
};

/// Location of the arrays and execution of the kernels. The warm-up and the timed part both call cycle().
class Backend {
  public:
    virtual ~Backend() = default;

    virtual Capacity capacity() const = 0;
    virtual tenken::Subject subject() const = 0;
    /// As in the document: "host", "device" or "host and device".
    virtual std::string clock() const { return "host"; }

    /// Makes the device current for the calling thread, which makes all further calls. Allocates and
    /// writes a[i] = start(i), b[i] = c[i] = 0, start() being stream::start.
    virtual void allocate(std::size_t elements) = 0;
    /// c = a; b = scalar c; c = a + b; a = b + scalar c; a . b
    virtual Cycle cycle(double scalar) = 0;
    /// Elements [first, first + count) of an array, in place or copied into `scratch` (room for count).
    virtual const double* read(Array array, std::size_t first, std::size_t count, double* scratch) = 0;
    virtual void write(Array array, std::size_t index, double value) = 0;
    /// Adds the data of the back end: placement of memory, devices, health, path.
    virtual void describe(tenken::Document& document) const = 0;

    /// Beginning and end of the timed part, in which health is monitored.
    /// Null if there is no sensor.
    virtual tenken::Meter* energy() { return nullptr; }
    virtual void begin_timed() {}
    virtual void end_timed() {}
    /// Compares every element of an array with factor x start(i), in place if possible.
    virtual tenken::ErrorScan compare(Array array, std::size_t elements, double factor, double tolerance);
    /// c = a by the copy of the run-time library (cudaMemcpy), warmed up and timed. Absent if there is
    /// none.
    virtual tenken::Optional<std::vector<double>> memcpy_seconds(long repetitions) {
        (void)repetitions;
        return {};
    }
};

/// A back end whose kernels are complete when run() returns, timed individually by the host clock.
class HostTimedBackend : public Backend {
  public:
    Cycle cycle(double scalar) final;

  protected:
    /// Runs one kernel. @return the sum for dot, anything otherwise
    virtual double run(Kernel kernel, double scalar) = 0;
};

/// The start values repeat after a prime number of elements, so that an element computed from a wrong
/// index is wrong; they are exact, in [1, 2).
constexpr std::size_t period = 1021;
inline double start(std::size_t i) {
    return 1.0 + static_cast<double>(i % period) / 1024.0;
}

/// A kind of back end, and the devices on which it runs: the host, or some GPUs.
class Family {
  public:
    virtual ~Family() = default;
    virtual std::string name() const = 0;
    /// Declares its own options.
    virtual void options(tenken::Arguments& arguments) { (void)arguments; }
    /// One back end for each requested device.
    /// @throws ArgumentError, or std::runtime_error if the machine has no such device
    virtual std::vector<std::unique_ptr<Backend>> places(const tenken::Arguments& arguments) = 0;
    /// Whether the devices are measured all at the same time instead of one by one.
    virtual bool at_once() const { return false; }
    /// Adds the common data of all devices: devices, health.
    virtual void describe(tenken::Document& document) { (void)document; }
};

/// The built ones, the default first. A new back end is a source file and a line here.
std::vector<std::unique_ptr<Family>> families();

std::unique_ptr<Backend> make_host_backend();
std::unique_ptr<Backend> make_openacc_backend();
std::unique_ptr<Family> make_cuda_family();

}  // namespace stream
