// Sizes of a sweep and words of a list: the values of options with several entries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/arguments.h"

namespace tenken {

/// Sizes from the first by the factor; the last one always ends the sweep. The same as a sweep
/// {from, to, by} in metrics.yaml.
/// @throws std::invalid_argument if the first is 0 or above the last, or the factor is below 2
std::vector<std::uint64_t> sweep(std::uint64_t first, std::uint64_t last, std::uint64_t factor);

/// Words of a comma-separated list, unchanged: "a,,b" has an empty one.
std::vector<std::string> words_of(const std::string& list);
/// The words with commas between.
std::string joined(const std::vector<std::string>& words);

/// The words of the list `text`, which is the value of an option: one or more of the allowed, none twice.
/// @throws ArgumentError
std::vector<std::string> distinct_words(const Arguments& arguments, const std::string& option,
                                        const std::string& text, const std::vector<std::string>& allowed);
/// The same where "all" stands for all of them. @param remark the end of the expectation: " with this
/// placement"
std::vector<std::string> all_or_distinct_words(const Arguments& arguments, const std::string& option,
                                               const std::string& text,
                                               const std::vector<std::string>& allowed,
                                               const std::string& remark = "");

}  // namespace tenken
