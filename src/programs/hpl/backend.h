// Where the matrix is and what factorises it: the host, or a GPU a process.
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

/// How an engine computes, found before it is made; the same for all engines of a run.
class Backend {
  public:
    virtual ~Backend() = default;
    /// The word for --backend.
    virtual std::string name() const = 0;
    virtual void options(tenken::Arguments& arguments) = 0;
    /// Finds what it needs. @throws ArgumentError, Waived
    virtual void prepare(const tenken::Arguments& arguments, Ranks& ranks) = 0;
    /// What this process's metrics belong to where it is alone.
    virtual tenken::Subject subject() const = 0;
    /// Memory that this process can still give, and what an engine needs of it, in bytes.
    virtual std::uint64_t free_bytes() const = 0;
    virtual std::uint64_t needed_bytes(const Layout& layout) const = 0;
    /// Blocks that --nb auto tries, and the narrowest step that is worth its overhead.
    virtual std::vector<std::int64_t> blocks_to_try() const = 0;
    virtual std::int64_t min_width() const = 0;
    virtual std::unique_ptr<Engine> make(const Layout& layout, Ranks& ranks) = 0;
    /// Watches health while work() runs.
    virtual void watch(const std::function<void()>& work) { work(); }
    /// Null where there is no sensor.
    virtual tenken::Meter* energy() { return nullptr; }
    /// x of A x = b as a library finds it in this process alone, for small matrices.
    virtual std::vector<double> library_solution(const Matrix& matrix) = 0;
    /// Peak of double precision of this process in TFLOP/s, or why it is not told.
    virtual tenken::Limit peak() const = 0;
    /// Devices and health of all ranks, into the document of the one that speaks.
    virtual void report(tenken::Document& document, Ranks& ranks) = 0;
};

std::unique_ptr<Backend> make_host_backend();
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace hpl
