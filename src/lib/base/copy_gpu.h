// GPUs as the programs see them that copy between host and device memory: where arrays lie, how they get
// there, who copies. An interface, so that the programs build without CUDA and tests can put a double in the
// place of the real ones (common/cuda/copy_gpus.cu).
#pragma once

#include <functional>
#include <memory>
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

/// How an array comes to lie on its side.
enum class Method {
    explicit_memory,   ///< pinned memory on the host, cudaMalloc on the device
    managed_touch,     ///< cudaMallocManaged; the processor of the side writes it first
    managed_prefetch,  ///< cudaMallocManaged; written by the host, then prefetched to the side
    managed_advise,  ///< cudaMallocManaged; the side is the preferred location; its processor writes it first
    sam              ///< malloc; the processor of the side writes it first
};

/// The names of the methods as options and coordinates have them, in the order of the enumeration.
const std::vector<std::string>& method_names();
/// @throws std::logic_error for a name that is none
Method method_of(const std::string& name);
const std::string& name_of(Method method);
const char* name_of(MemorySpace space);
const char* name_of(Processor processor);
bool is_managed(Method method);

/// Where the pages of an array lie, by asking for up to 4096 of them.
struct Residence {
    bool known = false;
    double on_host = 0;  ///< fraction of the pages asked for
    double on_device = 0;

    static Residence all_on(MemorySpace space);
    /// Whether it is known that pages lie elsewhere: more than one in twenty.
    bool contradicts(MemorySpace space) const;
    /// "host 100 %, device 0 %" or "unknown".
    std::string text() const;
};

/// One GPU. Functions that take arrays may be given any memory that allocate() gave.
class CopyGpu {
  public:
    virtual ~CopyGpu() = default;
    virtual const DeviceDescription& description() const = 0;
    /// Untouched memory that, by this method, can lie on that side.
    virtual Buffer allocate(Method method, MemorySpace space, std::size_t elements) = 0;
    /// Makes `space` the preferred location of managed memory, mapped for both processors where that is
    /// possible.
    virtual void advise(double* array, std::size_t elements, MemorySpace space) = 0;
    /// Moves managed memory to `space` and waits.
    virtual void prefetch(double* array, std::size_t elements, MemorySpace space) = 0;
    /// The GPU writes copy_value(i, pattern) to every element, and is waited for.
    virtual void fill(double* array, std::size_t elements, int pattern) = 0;
    /// to[i] = from[i] by a kernel, `repetitions` times. @return device seconds of each
    virtual std::vector<double> copy(double* to, const double* from, std::size_t elements,
                                     long repetitions) = 0;
    /// Every element against copy_value(i, pattern), by the GPU.
    virtual ErrorScan compare(const double* array, std::size_t elements, int pattern) = 0;
    /// For --inject-fault element.
    virtual void flip_bit(double* array, std::size_t index) = 0;
    /// Where the pages of an array of that method lie (`space` is where an explicit one was allocated).
    virtual Residence residence(const double* array, std::size_t elements, Method method,
                                MemorySpace space) = 0;
    /// What runs between the two is watched for the GPU's health.
    virtual void begin_timed() = 0;
    virtual void end_timed() = 0;
};

/// The GPUs that a program measures, one after the other.
class CopyGpus {
  public:
    virtual ~CopyGpus() = default;
    virtual void options(Arguments& arguments) = 0;
    virtual void prepare(const Arguments& arguments) = 0;
    virtual std::vector<DeviceDescription> descriptions() const = 0;
    virtual void each(const std::function<void(CopyGpu&)>& work) = 0;
    /// Writes devices, health, launches and the CUDA part of the build into the document.
    virtual void report(Document& document) = 0;
};

/// Defined by the CUDA part, by a test double, or, in a build without CUDA, by the program itself as null.
std::unique_ptr<CopyGpus> make_copy_gpus();

/// Ends the run as waived where the GPU cannot do a method, naming the attribute that says so.
/// @throws Waived
void require_method(Method method, const DeviceDescription& device);

/// Refuses two arrays that do not fit: on the device beyond 9/10 of what is free, or half of it for managed
/// memory; on the host beyond 9/10 of what is available there, of which pinned memory is taken.
/// @param option the name of the option that gave `bytes`, which is the size of one array
/// @throws ArgumentError with the bytes asked and free and the side
void require_two_arrays_fit(const Arguments& arguments, const std::string& option, std::uint64_t bytes,
                            Method method, const std::vector<DeviceDescription>& devices);

/// Adds to the document what decides how memory of both sides behaves: page sizes, huge pages.
void describe_pages(Document& document);

}  // namespace tenken
