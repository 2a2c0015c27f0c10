// Reads the small text files of /proc and /sys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/optional.h"

namespace tenken {

/// The content without the final newline, nothing if it cannot be read.
Optional<std::string> read_text(const std::string& path);
/// The first number in the file, nothing if there is none (such as "max" in a cgroup file).
Optional<std::uint64_t> read_number(const std::string& path);
/// The numbers of all names in a folder that consist of `prefix` and digits, sorted.
std::vector<int> numbered_entries(const std::string& folder, const std::string& prefix);
/// The numbers of a kernel list such as "0-3,8,10-11"; empty if malformed.
std::vector<int> parse_cpu_list(const std::string& text);
/// Removes blanks at both ends.
std::string trimmed(const std::string& text);
/// The value after the first line "KEY<blanks>:" as in /proc/cpuinfo and /proc/meminfo, trimmed.
Optional<std::string> field(const std::string& text, const std::string& key);

}  // namespace tenken
