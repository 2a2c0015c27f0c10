// Location and factorisation of the matrix: the host, or one GPU per process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/energy.h"
#include "programs/hpl/engine.h"

namespace hpl {

/// The properties of engines, determined before construction; the same for all engines of a run.
class Backend {
  public:
    virtual ~Backend() = default;
    /// The value of --backend.
    virtual std::string name() const = 0;
    virtual void options(tenken::Arguments& arguments) = 0;
    /// Finds the required libraries and devices. @throws ArgumentError, Waived
    virtual void prepare(const tenken::Arguments& arguments, Ranks& ranks) = 0;
    /// The subject of this process's metrics if it is the only one.
    virtual tenken::Subject subject() const = 0;
    /// Memory available to this process, and required by an engine, in bytes.
    virtual std::uint64_t free_bytes() const = 0;
    virtual std::uint64_t needed_bytes(const Layout& layout) const = 0;
    /// Candidates of --nb auto, and the minimum step width that is worth its overhead.
    virtual std::vector<std::int64_t> blocks_to_try() const = 0;
    virtual std::int64_t min_width() const = 0;
    virtual std::unique_ptr<Engine> make(const Layout& layout, Ranks& ranks) = 0;
    /// Monitors health while work() runs.
    virtual void watch(const std::function<void()>& work) { work(); }
    /// Null if there is no sensor.
    virtual tenken::Meter* energy() { return nullptr; }
    /// x of A x = b from a library in this process only, for small matrices.
    virtual std::vector<double> library_solution(const Matrix& matrix) = 0;
    /// Peak of double precision of this process in TFLOP/s, or why it is unknown.
    virtual tenken::Limit peak() const = 0;
    /// Devices and health of all ranks, into the document of the rank that prints.
    virtual void report(tenken::Document& document, Ranks& ranks) = 0;
};

std::unique_ptr<Backend> make_host_backend();
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace hpl
