// Matrix Market files: coordinate and array; real, integer and pattern; general, symmetric and
// skew-symmetric.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "lib/sparse/byte_source.h"
#include "lib/sparse/csr.h"

namespace sparse {

/// A malformed file. The text is "FILE:LINE: error", without the line if there is
/// none.
class MarketError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// The contents of the header.
struct MarketHeader {
    bool coordinate = true;
    bool pattern = false;
    bool integer = false;
    std::int64_t least = 0;  ///< of the values of an integer field
    bool symmetric = false;  ///< or skew: one triangle is stored
    bool skew = false;
    int rows = 0;
    int columns = 0;
    std::int64_t entries = 0;  ///< stored ones

    /// "coordinate real symmetric"
    std::string text() const;
};

struct MarketMatrix {
    MarketHeader header;
    Csr matrix;  ///< both triangles; an entry of a pattern is 1
};

/// Reads a matrix. Memory while reading: 16 bytes per stored entry, in addition to the result. Whatever the
/// header announces, no more is allocated than the file contains.
/// @param open returns the text; called a second time to find the line of a duplicate entry
/// @param name every message begins with it
/// @param max_bytes maximum allocation @throws MarketError
MarketMatrix read_market(const std::function<std::unique_ptr<ByteSource>()>& open, const std::string& name,
                         std::uint64_t max_bytes);
MarketMatrix read_market_file(const std::string& path, std::uint64_t max_bytes);

/// The files *.mtx and *.mtx.gz in a folder and its subfolders, sorted by name.
/// @throws MarketError if it cannot be read or has none
std::vector<std::string> market_files(const std::string& folder);

}  // namespace sparse
