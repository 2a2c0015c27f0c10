// Command lines: one table of options from which parsing, --help and the document's parameters are derived.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/json.h"

namespace tenken {

/// The back ends of a program: "host", and "cuda" where it was built with CUDA.
std::vector<std::string> backends(bool cuda);

/// An invalid argument. The text is one line with the argument, its value and the allowed values.
class ArgumentError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// The options of one program. Every option is bound to a variable, whose value at that moment is the
/// default. It carries its unit in its name (--array-bytes), because the name, with - turned into _, is the
/// key in the document's `parameters`.
class Arguments {
  public:
    /// @param purpose one sentence for --help
    Arguments(std::string program, std::string purpose);

    /// A count. Suffixes k, M, G (10^3, 10^6, 10^9) are accepted.
    void integer(const std::string& name, std::int64_t& target, std::int64_t minimum, std::int64_t maximum,
                 const std::string& help);
    /// A number of bytes: k, M, G are powers of 1000, Ki, Mi, Gi of 1024; a final B is allowed.
    /// @param default_text shown in --help where the default is computed later (target 0 = not given)
    void bytes(const std::string& name, std::uint64_t& target, std::uint64_t minimum, std::uint64_t maximum,
               const std::string& help, const std::string& default_text = "");
    /// A real number in `unit` (for --help; the name should also contain it).
    void real(const std::string& name, double& target, const std::string& unit, double minimum,
              double maximum, const std::string& help);
    /// One word from a list.
    void choice(const std::string& name, std::string& target, const std::vector<std::string>& allowed,
                const std::string& help);
    /// Any text. --help shows `placeholder` for it.
    void text(const std::string& name, std::string& target, const std::string& placeholder,
              const std::string& help);
    /// A flag.
    void flag(const std::string& name, bool& target, const std::string& help);
    /// Options added after this call are listed under this heading in --help.
    void heading(const std::string& title);
    /// The name that option `name` had in earlier releases: still accepted, not shown by --help. The
    /// parameters contain the value under the current name.
    void former_name(const std::string& former, const std::string& name);
    /// An option of earlier releases that is now a value of option `name`: --former KEY means --name VALUE
    /// for each pair of KEY and VALUE. A single pair with an empty KEY is a flag: --former means --name
    /// VALUE.
    void former_option(const std::string& former, const std::string& name,
                       const std::vector<std::pair<std::string, std::string>>& values);

    /// Reads the command line into the bound variables. --help and --version are the caller's flags.
    /// @throws ArgumentError
    void parse(int argc, char** argv);

    /// The error for a value that turns out later to be invalid on this machine; contains option and value.
    /// @param expectation e.g. "at least 128 MiB (4 x the last-level cache of 32 MiB)"
    ArgumentError error(const std::string& name, const std::string& expectation) const;
    /// True if the option was given on the command line.
    bool given(const std::string& name) const;
    std::string help() const;
    /// The current values, by parameter key; options that do not affect the measurement
    /// (json, request, help, version) are omitted.
    Json parameters() const;

  private:
    struct Option {
        std::string name;
        std::string placeholder;  ///< empty for a flag
        std::string range;
        std::string default_text;
        std::string help;
        std::string heading;
        std::function<void(const std::string&)> read;  ///< throws ArgumentError with the expectation only
        std::function<Json()> value;
        std::string given_as;    ///< the value as typed
        std::string given_name;  ///< the option as typed, if that was a former name
        bool given;
    };
    struct Former {
        std::string former;
        std::string name;
        std::vector<std::pair<std::string, std::string>> values;  ///< empty: only a former name
        bool is_flag() const { return values.size() == 1 && values.front().first.empty(); }
    };
    void add(Option option);
    void read(Option& option, const std::string& text);
    std::string today(const Former& former, const std::string& text) const;
    const Option& find(const std::string& name) const;
    std::size_t place_of(const std::string& name) const;

    std::string program_;
    std::string purpose_;
    std::string heading_ = "options";
    std::vector<Option> options_;
    std::vector<Former> former_;
};

/// "128 MiB", "3 GiB", "1000 B": exact if a power of 1024 divides it, otherwise with two decimals.
std::string format_bytes(std::uint64_t bytes);

}  // namespace tenken
