// GPUs as seen by programs that copy between host and device memory: placement of arrays, migration, and
// which processor copies. An interface, so that the programs build without CUDA and tests can replace the
// GPUs (cuda/copy_gpus.cu) by a test double.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/copy_values.h"
#include "lib/base/device.h"
#include "lib/base/document.h"
#include "lib/base/verification.h"

namespace tenken {

enum class MemorySpace { host, device };
enum class Processor { cpu, gpu };

/// How an array is placed on its side.
enum class Method {
    explicit_memory,   ///< pinned memory on the host, cudaMalloc on the device
    managed_touch,     ///< cudaMallocManaged; first touch by the processor of that side
    managed_prefetch,  ///< cudaMallocManaged; written by the host, then prefetched to that side
    managed_advise,  ///< cudaMallocManaged; that side is the preferred location; first touch by its processor
    sam              ///< malloc; first touch by the processor of that side
};

/// The names of the methods in options and coordinates, in the order of the enumeration.
const std::vector<std::string>& method_names();
/// @throws std::logic_error for an unknown name
Method method_of(const std::string& name);
const std::string& name_of(Method method);
const char* name_of(MemorySpace space);
const char* name_of(Processor processor);
bool is_managed(Method method);

/// The location of an array's pages, from a query of up to 4096 of them.
struct Residence {
    bool known = false;
    double on_host = 0;  ///< fraction of the queried pages
    double on_device = 0;

    static Residence all_on(MemorySpace space);
    /// @param nodes of the queried pages, -1: none; unknown if empty
    /// @param of_cpus the nodes with CPUs; empty: not told, and no node is a GPU's
    static Residence of_pages(const std::vector<int>& nodes, const std::set<int>& of_cpus);
    /// Whether pages are known to be elsewhere: more than one in twenty.
    bool contradicts(MemorySpace space) const;
    /// "host 100 %, device 0 %" or "unknown".
    std::string text() const;
};

/// One GPU. Functions on arrays accept any memory returned by allocate().
class CopyGpu {
  public:
    virtual ~CopyGpu() = default;
    virtual const DeviceDescription& description() const = 0;
    /// Untouched memory that this method can place on that side.
    virtual Buffer allocate(Method method, MemorySpace space, std::size_t elements) = 0;
    /// Makes `space` the preferred location of managed memory, mapped for both processors if
    /// possible.
    virtual void advise(double* array, std::size_t elements, MemorySpace space) = 0;
    /// Moves managed memory to `space` and waits.
    virtual void prefetch(double* array, std::size_t elements, MemorySpace space) = 0;
    /// The GPU writes copy_value(i, pattern) to every element; returns when this is done.
    virtual void fill(double* array, std::size_t elements, int pattern) = 0;
    /// to[i] = from[i] by a kernel, `repetitions` times. @return device seconds of each
    virtual std::vector<double> copy(double* to, const double* from, std::size_t elements,
                                     long repetitions) = 0;
    /// The GPU compares every element with copy_value(i, pattern).
    virtual ErrorScan compare(const double* array, std::size_t elements, int pattern) = 0;
    /// For --inject-fault element.
    virtual void flip_bit(double* array, std::size_t index) = 0;
    /// The location of the pages of an array of that method (`space`: where an explicit one was allocated).
    virtual Residence residence(const double* array, std::size_t elements, Method method,
                                MemorySpace space) = 0;
    /// The GPU's health is monitored between the two calls.
    virtual void begin_timed() = 0;
    virtual void end_timed() = 0;
};

/// The GPUs that a program measures in turn.
class CopyGpus {
  public:
    virtual ~CopyGpus() = default;
    virtual void options(Arguments& arguments) = 0;
    virtual void prepare(const Arguments& arguments) = 0;
    virtual std::vector<DeviceDescription> descriptions() const = 0;
    virtual void each(const std::function<void(CopyGpu&)>& work) = 0;
    /// Writes devices, health, launches and the CUDA part of the build information into the document.
    virtual void report(Document& document) = 0;
};

/// Defined by the CUDA part, by a test double or, in a build without CUDA, by the program itself as null.
std::unique_ptr<CopyGpus> make_copy_gpus();

/// Waives the run if the GPU does not support a method, with the attribute that shows it.
/// @throws Waived
void require_method(Method method, const DeviceDescription& device);

/// Rejects two arrays that do not fit. On the device they may take 9/10 of the free memory, or half of it for
/// managed memory; on the host 9/10 of the available memory, which pinned memory uses too.
/// @param option the name of the option that gave `bytes`, which is the size of one array
/// @throws ArgumentError with the requested and free bytes and the side
void require_two_arrays_fit(const Arguments& arguments, const std::string& option, std::uint64_t bytes,
                            Method method, const std::vector<DeviceDescription>& devices);

/// Adds the properties that determine memory behaviour on both sides to the document: page sizes, huge pages.
void describe_pages(Document& document);

}  // namespace tenken
