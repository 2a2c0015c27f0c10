// What a back end of stream gives: three arrays somewhere, and the five kernels over them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/document.h"
#include "common/optional.h"

namespace stream {

/// In the order in which a cycle runs them.
enum class Kernel { copy, scale, add, triad, dot };
constexpr std::size_t kernel_count = 5;
enum class Array { a, b, c };

/// What the arrays are held against before anything is allocated.
struct Capacity {
    tenken::Optional<std::uint64_t> cache_bytes;  ///< all last-level caches (the L2 of a GPU) together
    std::uint64_t least_default_bytes = 0;        ///< an array is at least this large by default
    unsigned default_caches = 4;                  ///< and at least this many times the cache
    std::uint64_t free_bytes = 0;                 ///< what may still be allocated
};

/// The five kernels run once each.
struct Cycle {
    std::array<double, kernel_count> seconds;
    double dot = 0;  ///< the result of the dot kernel
};

/// Where the arrays lie and how the kernels run. The warm-up and the timed part both call cycle().
class Backend {
  public:
    virtual ~Backend() = default;

    virtual Capacity capacity() const = 0;
    virtual tenken::Subject subject() const = 0;
    /// The physical limit of a kernel in GB/s.
    virtual tenken::Limit limit(Kernel kernel) const = 0;
    /// As in the document: "host", "device" or "host and device".
    virtual std::string clock() const { return "host"; }

    /// Allocates and writes a[i] = start(i), b[i] = c[i] = 0, start() being stream::start.
    virtual void allocate(std::size_t elements) = 0;
    /// c = a; b = scalar c; c = a + b; a = b + scalar c; a . b
    virtual Cycle cycle(double scalar) = 0;
    /// Elements [first, first + count) of an array, in place or copied into `scratch` (room for count).
    virtual const double* read(Array array, std::size_t first, std::size_t count, double* scratch) = 0;
    virtual void write(Array array, std::size_t index, double value) = 0;
    /// Adds what only the back end knows: placement of memory, devices, health, path.
    virtual void describe(tenken::Document& document) const = 0;
};

/// A back end whose kernels are over when run() returns, timed one by one by the host clock.
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

struct BackendEntry {
    std::string name;
    std::function<std::unique_ptr<Backend>()> make;
};
/// Those that were built, the default first. A new back end is a source file and a line here.
std::vector<BackendEntry> backends();

std::unique_ptr<Backend> make_host_backend();
std::unique_ptr<Backend> make_openacc_backend();

}  // namespace stream
