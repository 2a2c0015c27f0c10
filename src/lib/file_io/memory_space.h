// The two sides of a transfer: memory (of the host or a GPU) and a file, and the methods between them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/optional.h"
#include "lib/base/program.h"
#include "lib/base/subject.h"
#include "lib/file_io/file.h"
#include "lib/file_io/particles.h"
#include "lib/file_io/words.h"

namespace file_io {

/// A transfer configuration: a method, its block size, and the number of threads.
struct IoConfig {
    std::string method;  ///< "posix", "direct", "mapped", "cufile"
    std::uint64_t block_bytes = 1 << 20;
    int threads = 1;

    /// "posix_1mi_8": method, block, threads.
    std::string name() const;
    /// Parses such a name. @throws std::invalid_argument with the allowed values
    static IoConfig of(const std::string& name);
    /// The configuration reduced for this many bytes: no block larger than the data, no thread without a
    /// block.
    IoConfig fitted(std::uint64_t bytes) const;
    bool operator==(const IoConfig& other) const {
        return method == other.method && block_bytes == other.block_bytes && threads == other.threads;
    }
};

/// Bytes of the copies that measure the link to a GPU.
constexpr std::uint64_t link_bytes = std::uint64_t{256} << 20;

/// "4ki", "1mi", "16mi", "1000"; metric ids are in lower case.
std::string short_bytes(std::uint64_t bytes);

/// A part of a file and the memory (of a side) that is its destination or source.
struct Segment {
    std::uint64_t offset;
    std::uint64_t bytes;
    char* memory;
};

/// Cuts segments into blocks that threads fetch in turn.
class Blocks {
  public:
    Blocks(const std::vector<Segment>& segments, std::uint64_t block_bytes);
    std::uint64_t count() const { return starts_.back(); }
    Segment at(std::uint64_t index) const;

  private:
    const std::vector<Segment>& segments_;
    std::uint64_t block_bytes_;
    std::vector<std::uint64_t> starts_;  ///< the first block of each segment, then their number
};

/// The access of a method to a file at this offset.
Access access_of(const std::string& method, std::uint64_t offset);

/// Maps the required part of a file, and unmaps it at the end of the block; does nothing if not required.
class MappedPart {
  public:
    MappedPart(File& file, const std::vector<Segment>& segments, bool to_write, bool wanted);
    ~MappedPart();
    MappedPart(const MappedPart&) = delete;
    MappedPart& operator=(const MappedPart&) = delete;

  private:
    File* file_;
};

/// A snapshot's arrays, and memory for its datasets in the hyperslab layout.
struct Packing {
    Quartet arrays;
    Quartet packed;  ///< the ids remain in the arrays
    std::uint64_t particles;
};

class MemorySpace;

/// Transfers between files and the memory of one side by one candidate.
class IoBackend {
  public:
    virtual ~IoBackend() = default;
    /// Whether files must be opened for Access::direct.
    virtual bool needs_direct() const { return false; }
    /// To be done once for an open file, and undone before it is closed.
    virtual void attach(File& file) { (void)file; }
    virtual void detach(File& file) { (void)file; }
    /// Returns when the file system has accepted everything. @throws FileError, CudaError
    virtual void write(File& file, const std::vector<Segment>& segments) = 0;
    /// After MemorySpace::wait() the memory contains everything. @throws FileError, CudaError
    virtual void read(File& file, const std::vector<Segment>& segments) = 0;

    /// To be called before write_packed() or read_packed(), outside the timed part, and before attach().
    virtual void expect_packing() {}
    /// Packs the arrays and writes the four datasets, `segments` in the order of the layout. The ids, which
    /// need no packing, go first. @throws FileError, CudaError
    virtual void write_packed(MemorySpace& space, File& file, const Packing& packing,
                              const std::vector<Segment>& segments);
    /// Reads the four datasets and unpacks them; after MemorySpace::wait(), which must follow, the arrays
    /// contain everything. @throws FileError, CudaError
    virtual void read_packed(MemorySpace& space, File& file, const Packing& packing,
                             const std::vector<Segment>& segments);

    /// Enqueues a write in a separate stream, after a CUDA event; end_write() waits for it.
    /// @return the reason of a failure; empty if it was started
    virtual std::string begin_write(File& file, const Segment& segment, void* event) {
        (void)file, (void)segment, (void)event;
        return "only cuFile writes within a stream";
    }
    /// @throws FileError, CudaError
    virtual void end_write(File& file) { (void)file; }
};

/// The segments of a packed snapshot, ids first: they are transferred while the others are packed.
std::vector<Segment> ids_first(std::vector<Segment> segments);

/// Memory that frees itself.
typedef std::shared_ptr<char> Memory;

/// The memory that contains the data: the host's, or a GPU's.
class MemorySpace {
  public:
    virtual ~MemorySpace() = default;
    virtual tenken::Subject subject() const = 0;
    std::string name() const { return subject().text(); }
    /// Methods available to a candidate here.
    virtual std::vector<std::string> methods() const = 0;
    virtual std::unique_ptr<IoBackend> io_backend(const IoConfig& config) = 0;

    /// Aligned to at least 4096 bytes. @throws std::bad_alloc, CudaError
    virtual Memory allocate(std::uint64_t bytes) = 0;
    virtual void fill(char* memory, std::uint64_t words, const Words& values) = 0;
    virtual Mismatch compare(const char* memory, std::uint64_t words, const Words& values) = 0;
    virtual void clear(char* memory, std::uint64_t bytes) = 0;
    /// Host memory for to_host() and from_host().
    virtual Memory staging(std::uint64_t bytes) = 0;
    /// Copies, complete after wait().
    virtual void to_host(char* host, const char* memory, std::uint64_t bytes) = 0;
    virtual void from_host(char* memory, const char* host, std::uint64_t bytes) = 0;
    /// Whether to_host() copies: a program may use host memory directly.
    virtual bool is_host() const = 0;
    /// Arrays into the datasets of the hyperslab layout; the next write() of a mover sees the result.
    virtual void pack(const Quartet& arrays, const Quartet& packed, std::uint64_t particles) = 0;
    /// The reverse, after the preceding read(); complete after wait().
    virtual void unpack(const Quartet& packed, const Quartet& arrays, std::uint64_t particles) = 0;
    /// To be called by any thread other than the first before it uses this side.
    virtual void enter_thread() = 0;
    /// The same memory for one more thread, which has exclusive use of the returned object: back ends of one
    /// thread each, and separate streams. To be called by that thread, after enter_thread(); it must not
    /// outlive this side, and no memory may be allocated or released while it transfers.
    virtual std::unique_ptr<MemorySpace> for_this_thread() = 0;
    /// Waits for all work that was started.
    virtual void wait() = 0;
    /// The GPU's health is monitored between the two calls.
    virtual void begin_timed() = 0;
    virtual void end_timed() = 0;
    /// Seconds of plain copies of link_bytes from page-locked host memory, or back; empty on the host.
    virtual std::vector<double> link_seconds(bool to_memory) = 0;
    /// GB/s of reading a cached file by these threads without the copy to the memory of this side; 0 on the
    /// host.
    virtual double cached_rate(File& file, std::uint64_t bytes, const IoConfig& config) = 0;
};

/// The GPUs of a run; null in a build without CUDA.
class GpuMemorySpaces {
  public:
    virtual ~GpuMemorySpaces() = default;
    virtual void options(tenken::Arguments& arguments) = 0;
    virtual void prepare(const tenken::Arguments& arguments) = 0;
    /// @throws ArgumentError if `bytes` on each GPU do not fit; `what` e.g. "two snapshots"
    virtual void require_fit(const tenken::Arguments& arguments, const std::string& option,
                             std::uint64_t bytes, const std::string& what) const = 0;
    /// Calls work(side) for each GPU in turn.
    /// @param threads the maximum per candidate; @param folder where GPUDirect
    /// Storage is tested
    virtual void each(int threads, const std::string& folder,
                      const std::function<void(MemorySpace&)>& work) = 0;
    /// Devices, health, build, and the data path (describe_cufile) into the document.
    virtual void report(tenken::Document& document) = 0;
    /// cuFile's mode and properties, or why it does not work here.
    virtual void describe_cufile(tenken::Document& document) = 0;
};
std::unique_ptr<GpuMemorySpaces> make_gpu_memory_spaces();

std::unique_ptr<MemorySpace> make_host_memory_space(int threads);

}  // namespace file_io
