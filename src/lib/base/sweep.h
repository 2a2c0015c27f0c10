// Sizes of a sweep and words of a list: what options that ask for several things at once are read into.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenken {

/// Sizes from the first by the factor; the last one closes the sweep whatever the factor. The same as a sweep
/// {from, to, by} of metrics.yaml asks for.
/// @throws std::invalid_argument where the first is 0 or above the last, or the factor is below 2
std::vector<std::uint64_t> sweep(std::uint64_t first, std::uint64_t last, std::uint64_t factor);

/// Words of a list that is divided by commas, as they stand: "a,,b" has an empty one.
std::vector<std::string> words_of(const std::string& list);

}  // namespace tenken
