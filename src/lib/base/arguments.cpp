#include "lib/base/arguments.h"

#include <getopt.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace tenken {

namespace {

/// Splits "12Ki" into the whole number and the factor of its suffix.
/// @throws ArgumentError when it is not a whole number, the suffix is unknown, or it overflows
std::uint64_t read_scaled(const std::string& text, bool binary_suffixes) {
    const std::string wanted = binary_suffixes ? "a whole number with no suffix or k, M, G, T, Ki, Mi, Gi, Ti"
                                               : "a whole number with no suffix or k, M, G";
    std::size_t digits = 0;
    while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
    if (digits == 0) throw ArgumentError(wanted);
    errno = 0;
    const std::uint64_t number = std::strtoull(text.substr(0, digits).c_str(), nullptr, 10);
    if (errno == ERANGE) throw ArgumentError("a number below 2^64");
    std::string suffix = text.substr(digits);
    if (binary_suffixes && !suffix.empty() && suffix.back() == 'B') suffix.pop_back();
    std::uint64_t factor = 1;
    if (!suffix.empty()) {
        const std::string letters = binary_suffixes ? "kMGT" : "kMG";
        const bool binary = binary_suffixes && suffix.size() == 2 && suffix[1] == 'i';
        // "Ki" is the standard spelling and "ki" a common variant; "K" alone is ambiguous and rejected.
        const char letter = binary && suffix[0] == 'K' ? 'k' : suffix[0];
        const std::size_t power = letters.find(letter);
        if (power == std::string::npos || (suffix.size() != 1 && !binary)) throw ArgumentError(wanted);
        for (std::size_t i = 0; i <= power; ++i) factor *= binary ? 1024 : 1000;
    }
    if (number > std::numeric_limits<std::uint64_t>::max() / factor) {
        throw ArgumentError("a number below 2^64");
    }
    return number * factor;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
    std::string out;
    std::size_t column = 0;
    std::size_t i = 0;
    while (i < text.size()) {
        const std::size_t end = std::min(text.find(' ', i), text.size());
        if (column > 0 && column + 1 + (end - i) > width - indent) {
            out += "\n" + std::string(indent, ' ');
            column = 0;
        } else if (column > 0) {
            out += ' ';
            ++column;
        }
        out.append(text, i, end - i);
        column += end - i;
        i = end + 1;
    }
    return out;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
    static const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double value = static_cast<double>(bytes);
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        ++unit;
    }
    char text[32];
    std::snprintf(text, sizeof text, value == std::floor(value) ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return text;
}

std::vector<std::string> backends(bool cuda) {
    std::vector<std::string> found(1, "host");
    if (cuda) found.push_back("cuda");
    return found;
}

Arguments::Arguments(std::string program, std::string purpose)
    : program_(std::move(program)), purpose_(std::move(purpose)) {}

void Arguments::add(Option option) {
    option.heading = heading_;
    option.given = false;
    options_.push_back(std::move(option));
}

void Arguments::heading(const std::string& title) {
    heading_ = title;
}

void Arguments::integer(const std::string& name, std::int64_t& target, std::int64_t minimum,
                        std::int64_t maximum, const std::string& help) {
    Option option{};
    option.name = name;
    option.placeholder = "N";
    option.range = std::to_string(minimum) + " to " + std::to_string(maximum);
    option.default_text = std::to_string(target);
    option.help = help;
    option.read = [&target, minimum, maximum](const std::string& text) {
        const bool negative = !text.empty() && text[0] == '-';
        const std::uint64_t size = read_scaled(negative ? text.substr(1) : text, false);
        const auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
        const auto value = static_cast<std::int64_t>(std::min(size, largest)) * (negative ? -1 : 1);
        if (value < minimum || value > maximum) throw ArgumentError("");
        target = value;
    };
    option.value = [&target] { return Json(target); };
    add(option);
}

void Arguments::bytes(const std::string& name, std::uint64_t& target, std::uint64_t minimum,
                      std::uint64_t maximum, const std::string& help, const std::string& default_text) {
    Option option{};
    option.name = name;
    option.placeholder = "BYTES";
    option.range = format_bytes(minimum) + " to " + format_bytes(maximum);
    option.default_text = default_text.empty() ? format_bytes(target) : default_text;
    option.help = help;
    option.read = [&target, minimum, maximum](const std::string& text) {
        const std::uint64_t value = read_scaled(text, true);
        if (value < minimum || value > maximum) throw ArgumentError("");
        target = value;
    };
    option.value = [&target] { return Json(target); };
    add(option);
}

void Arguments::real(const std::string& name, double& target, const std::string& unit, double minimum,
                     double maximum, const std::string& help) {
    Option option{};
    option.name = name;
    option.placeholder = "X";
    option.range = shortest(minimum) + " to " + shortest(maximum) + (unit.empty() ? "" : " " + unit);
    option.default_text = shortest(target) + (unit.empty() ? "" : " " + unit);
    option.help = help;
    option.read = [&target, minimum, maximum](const std::string& text) {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool starts_well = !text.empty() && !std::isspace(static_cast<unsigned char>(text[0]));
        if (!starts_well || *end != '\0') throw ArgumentError("a number");
        if (!(value >= minimum && value <= maximum)) throw ArgumentError("");
        target = value;
    };
    option.value = [&target] { return Json(target); };
    add(option);
}

void Arguments::choice(const std::string& name, std::string& target, const std::vector<std::string>& allowed,
                       const std::string& help) {
    Option option{};
    option.name = name;
    option.placeholder = "NAME";
    for (const std::string& word : allowed) option.range += (option.range.empty() ? "" : ", ") + word;
    option.default_text = target;
    option.help = help;
    option.read = [&target, allowed](const std::string& text) {
        if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) throw ArgumentError("");
        target = text;
    };
    option.value = [&target] { return Json(target); };
    add(option);
}

void Arguments::text(const std::string& name, std::string& target, const std::string& placeholder,
                     const std::string& help) {
    Option option{};
    option.name = name;
    option.placeholder = placeholder;
    option.default_text = target.empty() ? "none" : target;
    option.help = help;
    option.read = [&target](const std::string& text) {
        if (text.empty()) throw ArgumentError("non-empty text");
        target = text;
    };
    option.value = [&target] { return Json(target); };
    add(option);
}

void Arguments::flag(const std::string& name, bool& target, const std::string& help) {
    Option option{};
    option.name = name;
    option.help = help;
    option.read = [&target](const std::string&) { target = true; };
    option.value = [&target] { return Json(target); };
    add(option);
}

void Arguments::former_name(const std::string& former, const std::string& name) {
    former_.push_back({former, name, {}});
}

void Arguments::former_option(const std::string& former, const std::string& name,
                              const std::vector<std::pair<std::string, std::string>>& values) {
    former_.push_back({former, name, values});
}

/// Translates the value of a former option to a value of the current option.
std::string Arguments::today(const Former& former, const std::string& text) const {
    if (former.values.empty()) return text;
    std::string allowed;
    for (const auto& one : former.values) {
        if (one.first == text) return one.second;
        allowed += (allowed.empty() ? "" : ", ") + one.first;
    }
    throw ArgumentError("--" + former.former + " '" + text + "' is invalid; allowed: " + allowed +
                        " (now --" + former.name + ")");
}

void Arguments::read(Option& option, const std::string& text) {
    option.given_as = text;
    option.given = true;
    try {
        option.read(text);
    } catch (const ArgumentError& wrong) {
        const std::string what = wrong.what();
        throw error(option.name,
                    what.empty() || option.range.empty() ? what + option.range : what + ", " + option.range);
    }
}

void Arguments::parse(int argc, char** argv) {
    // Each option has a separate number, so that an abbreviation that matches two options is rejected; one
    // that matches an option and its former name is not.
    constexpr int first_number = 1000;
    std::vector<::option> table;
    for (const Option& option : options_) {
        const int argument = option.placeholder.empty() ? no_argument : required_argument;
        table.push_back(
            {option.name.c_str(), argument, nullptr, first_number + static_cast<int>(table.size())});
    }
    for (const Former& former : former_) {
        const std::size_t place = place_of(former.name);
        const bool flag = options_[place].placeholder.empty() || former.is_flag();
        table.push_back({former.former.c_str(), flag ? no_argument : required_argument, nullptr,
                         first_number + static_cast<int>(place)});
    }
    table.push_back({nullptr, 0, nullptr, 0});
    optind = 0;  // glibc: restart, so that tests can parse more than once
    opterr = 0;
    for (;;) {
        int index = -1;
        const int at = std::max(optind, 1);
        const int found = getopt_long(argc, argv, "+:", table.data(), &index);
        if (found == -1) break;
        if (found == ':') {
            throw ArgumentError(std::string(argv[optind - 1]) + ": needs a value");
        }
        if (found == '?') {
            throw ArgumentError(std::string(argv[at]) + ": unknown or ambiguous option; see --help");
        }
        Option& option = options_[static_cast<std::size_t>(found - first_number)];
        const std::string text = optarg == nullptr ? "" : optarg;
        const auto place = static_cast<std::size_t>(index);
        option.given_name.clear();
        if (place < options_.size()) {
            read(option, text);
        } else {
            const Former& former = former_[place - options_.size()];
            if (former.values.empty()) option.given_name = former.former;
            read(option, today(former, text));
        }
    }
    if (optind < argc) {
        throw ArgumentError(std::string(argv[optind]) + ": unexpected argument; see --help");
    }
}

std::size_t Arguments::place_of(const std::string& name) const {
    for (std::size_t i = 0; i < options_.size(); ++i) {
        if (options_[i].name == name) return i;
    }
    throw std::logic_error("no option --" + name);
}

const Arguments::Option& Arguments::find(const std::string& name) const {
    return options_[place_of(name)];
}

ArgumentError Arguments::error(const std::string& name, const std::string& expectation) const {
    const Option& option = find(name);
    const std::string value = option.given ? "'" + option.given_as + "'" : "(default)";
    const std::string typed =
        option.given_name.empty() ? option.name : option.given_name + " (now --" + option.name + ")";
    return ArgumentError("--" + typed + " " + value + " is invalid; allowed: " + expectation);
}

bool Arguments::given(const std::string& name) const {
    return find(name).given;
}

std::string Arguments::help() const {
    constexpr std::size_t indent = 8;
    constexpr std::size_t width = 100;
    std::string out = "usage: " + program_ + " [options]\n\n" + wrapped(purpose_, 0, width) + "\n";
    std::string last_heading;
    for (const Option& option : options_) {
        if (option.heading != last_heading) out += "\n" + option.heading + ":\n";
        last_heading = option.heading;
        out += "  --" + option.name + (option.placeholder.empty() ? "" : " " + option.placeholder) + "\n";
        std::string about = option.help;
        if (!option.range.empty()) about += "; allowed: " + option.range;
        if (!option.default_text.empty()) about += "; default: " + option.default_text;
        out += std::string(indent, ' ') + wrapped(about, indent, width) + "\n";
    }
    out +=
        "\nbytes take the suffixes k, M, G, T (powers of 1000) and Ki, Mi, Gi, Ti (powers of 1024)\n"
        "exit codes: 0 ok, 1 failed (verification or a failure at run time), 2 wrong argument,\n"
        "            3 waived (not supported by this machine)\n";
    return out;
}

Json Arguments::parameters() const {
    Json result = Json::object();
    for (const Option& option : options_) {
        if (option.name == "json" || option.name == "request" || option.name == "help" ||
            option.name == "version")
            continue;
        std::string key = option.name;
        std::replace(key.begin(), key.end(), '-', '_');
        result.set(key, option.value());
    }
    return result;
}

}  // namespace tenken
