// How one thread brings one sample from its file to the memory of the consumer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/file_io/hdf5.h"
#include "lib/file_io/memory_space.h"

namespace data_loading {

/// Belongs to the thread that made it.
class Reader {
  public:
    virtual ~Reader() = default;
    /// Opens the file, reads all of it, closes it; then the memory holds it. @throws FileError, CudaError
    virtual void read(const std::string& path, std::uint64_t bytes, char* memory) = 0;
};

/// Whether a method reads the files that HDF5 wrote.
inline bool by_hdf5(const std::string& method) {
    return method == "hdf5";
}

/// To be called by the thread that reads.
/// @param space of the consumer; @param config its block fits `largest`, the bytes of the largest sample
/// @param library of HDF5, for that method alone
std::unique_ptr<Reader> make_reader(file_io::MemorySpace& space, const file_io::IoConfig& config,
                                    std::uint64_t largest,
                                    const std::shared_ptr<const file_io::Hdf5>& library);

/// Writes one sample as a file of HDF5: one dataset "data" of single-precision numbers, contiguous, at a
/// multiple of 4096.
/// @return where its bytes begin @throws FileError
std::uint64_t write_hdf5(const file_io::Hdf5& library, const std::string& path, std::uint64_t bytes,
                         const char* memory);

}  // namespace data_loading
