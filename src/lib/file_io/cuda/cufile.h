// cuFile, loaded at run time: programs also start without it.
#pragma once

#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/file_io/file.h"

namespace file_io {

class CuFile {
  public:
    /// Loads the library named by TENKEN_CUFILE, otherwise libcufile.so.0, and opens its driver.
    /// @return nothing if it cannot be loaded, with the reason in `why_not`
    static std::shared_ptr<const CuFile> open(std::string& why_not);
    ~CuFile();
    CuFile(const CuFile&) = delete;
    CuFile& operator=(const CuFile&) = delete;

    /// "1.15.1" or "not reported".
    std::string version() const;
    /// The driver's properties as text: nvidia-fs version, supported file systems, modes, sizes.
    std::string properties() const;

    /// The handle of an open file. @throws FileError
    void* add(int descriptor, const std::string& path) const;
    void remove(void* handle) const;
    /// Registers GPU memory for transfers; false if refused.
    bool add_buffer(const void* base, std::size_t bytes) const;
    void remove_buffer(const void* base) const;
    /// All bytes, between `base` + `at` on the GPU and `offset` in the file. @throws FileError
    void write(void* handle, const void* base, std::size_t bytes, std::uint64_t offset, std::uint64_t at,
               const File& file) const;
    void read(void* handle, void* base, std::size_t bytes, std::uint64_t offset, std::uint64_t at,
              const File& file) const;

    /// A write within a stream; the memory that it refers to must exist until the stream has passed it.
    struct AsyncWrite {
        std::size_t bytes = 0;
        off_t offset = 0;
        off_t at = 0;
        ssize_t written = 0;
    };
    /// Enqueues it. @return the reason of a failure, empty on success
    std::string write_async(void* handle, void* base, AsyncWrite& what, cudaStream_t stream) const;

  private:
    CuFile() = default;
    struct Functions;
    std::unique_ptr<Functions> call_;
};

}  // namespace file_io
