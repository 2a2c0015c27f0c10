// HPL.dat: the input file that users of HPL have.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace hpl {

/// An invalid HPL.dat. The text contains line, field, value and allowed values.
class DatError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// The contents of an HPL.dat. Lines 14 to 31 select variants of the reference implementation (recursion,
/// broadcast, swapping). This implementation has one of each and ignores them.
struct Dat {
    enum class Output { standard, error, file };
    Output output = Output::standard;
    std::string output_file;
    std::vector<std::int64_t> n;
    std::vector<std::int64_t> nb;
    bool by_rows = true;
    std::vector<int> p;
    std::vector<int> q;
    double threshold = 16;
};

/// @param name of the file, for messages
/// @throws DatError
Dat parse_dat(const std::string& text, const std::string& name);

}  // namespace hpl
