// The source of a matrix text: a file, a file compressed by gzip, or memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace sparse {

class ByteSource {
  public:
    virtual ~ByteSource() = default;
    /// Reads up to `size` bytes. @return their number; 0 at the end. @throws std::runtime_error
    virtual std::size_t read(char* to, std::size_t size) = 0;
};

/// Opens a file. A file with the signature of gzip, whatever its name, is decompressed by the program gzip
/// through a pipe: nothing has to be linked, and decompression runs concurrently with parsing.
/// @throws std::runtime_error with the reason: missing, a folder, not readable, no program gzip
std::unique_ptr<ByteSource> open_file(const std::string& path);

/// A text in memory, which must remain valid.
std::unique_ptr<ByteSource> open_memory(const char* text, std::size_t size);

}  // namespace sparse
