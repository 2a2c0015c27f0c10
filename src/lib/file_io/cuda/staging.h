// Host memory that stages data between a file and a GPU.
#pragma once

#include <cstddef>
#include <string>

namespace file_io {

/// Page-locked memory of huge pages, so that it is physically contiguous: a block device receives a request
/// as a list of contiguous segments, and scattered pages make many. O_DIRECT reads of 1 MiB took 0.45 to 3 ms
/// into memory of cudaMallocHost (256 segments) and 0.4 ms into this (one). If a GPU cannot use registered
/// memory by the host's pointer, it is allocated by cudaMallocHost.
class Staging {
  public:
    /// @param bytes rounded up to whole huge pages of 2 MiB, all of them touched by the calling thread
    /// @throws std::bad_alloc, CudaError
    explicit Staging(std::size_t bytes);
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    char* data() { return data_; }
    std::size_t size() const { return size_; }

    /// Its kind on this machine, for documents.
    static std::string describe();

  private:
    char* data_ = nullptr;
    std::size_t size_;
    bool registered_ = false;
};

}  // namespace file_io
