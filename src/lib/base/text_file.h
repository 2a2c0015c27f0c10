// Reading the small text files in which the system describes itself (/proc, /sys).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/optional.h"

namespace tenken {

/// The content without the final newline, nothing when it cannot be read.
Optional<std::string> read_text(const std::string& path);
/// The first number of the file, nothing when there is none ("max" in a cgroup file, say).
Optional<std::uint64_t> read_number(const std::string& path);
/// The names in a folder that begin with `prefix` and go on with digits only, as those numbers, sorted.
std::vector<int> numbered_entries(const std::string& folder, const std::string& prefix);
/// The numbers of a kernel list such as "0-3,8,10-11"; empty when malformed.
std::vector<int> parse_cpu_list(const std::string& text);
/// Without blanks at both ends.
std::string trimmed(const std::string& text);
/// The value after the first line "KEY<blanks>:" as in /proc/cpuinfo and /proc/meminfo, trimmed.
Optional<std::string> field(const std::string& text, const std::string& key);

}  // namespace tenken
