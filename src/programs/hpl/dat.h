// HPL.dat: the input file that users of HPL have.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace hpl {

/// A wrong HPL.dat. The text names line and field, what was there and what is allowed.
class DatError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// What an HPL.dat asks for. Lines 14 to 31 choose among variants of the reference implementation (recursion,
/// broadcast, swapping); there is one way of each here, and they are passed over.
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
