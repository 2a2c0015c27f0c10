// Transfer of one sample from its file to the memory of the consumer by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/file_io/hdf5.h"
#include "lib/file_io/memory_space.h"

namespace data_loading {

/// Belongs to the thread that created it.
class Reader {
  public:
    virtual ~Reader() = default;
    /// Opens the file, reads all of it, closes it; the memory then contains it. @throws FileError, CudaError
    virtual void read(const std::string& path, std::uint64_t bytes, char* memory) = 0;
};

/// Whether a method reads the files written by HDF5.
inline bool by_hdf5(const std::string& method) {
    return method == "hdf5";
}

/// To be called by the reading thread.
/// @param space of the consumer; @param config its block fits `largest`, the bytes of the largest sample
/// @param library of HDF5, only for that method
std::unique_ptr<Reader> make_reader(file_io::MemorySpace& space, const file_io::IoConfig& config,
                                    std::uint64_t largest,
                                    const std::shared_ptr<const file_io::Hdf5>& library);

/// Writes one sample as an HDF5 file: one contiguous dataset "data" of single-precision numbers, at a
/// multiple of 4096.
/// @return its offset @throws FileError
std::uint64_t write_hdf5(const file_io::Hdf5& library, const std::string& path, std::uint64_t bytes,
                         const char* memory);

}  // namespace data_loading
