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

/// A file that is not what it says. The text is "FILE:LINE: what is wrong", the line left out where there is
/// none.
class MarketError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// What the first lines of a file say.
struct MarketHeader {
    bool coordinate = true;
    bool pattern = false;
    bool integer = false;
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

/// Reads a matrix. Memory while reading: 16 bytes a stored entry, besides the result; whatever is announced,
/// no more is taken than the file fills.
/// @param open gives the text; called a second time to find the line of an entry that is listed twice
/// @param name begins every message
/// @param max_bytes what may be allocated
/// @throws MarketError
MarketMatrix read_market(const std::function<std::unique_ptr<ByteSource>()>& open, const std::string& name,
                         std::uint64_t max_bytes);
MarketMatrix read_market_file(const std::string& path, std::uint64_t max_bytes);

/// The files *.mtx and *.mtx.gz in a folder and the folders in it, sorted by name.
/// @throws MarketError when it cannot be read or has none
std::vector<std::string> market_files(const std::string& folder);

}  // namespace sparse
