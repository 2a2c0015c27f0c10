#include "lib/base/sweep.h"

#include <sstream>
#include <stdexcept>

namespace tenken {

std::vector<std::uint64_t> sweep(std::uint64_t first, std::uint64_t last, std::uint64_t factor) {
    if (first == 0 || first > last || factor < 2) {
        throw std::invalid_argument("no sweep from " + std::to_string(first) + " to " + std::to_string(last) +
                                    " by " + std::to_string(factor));
    }
    std::vector<std::uint64_t> sizes;
    std::uint64_t size = first;
    while (size < last) {
        sizes.push_back(size);
        if (size > last / factor) break;  // the next one exceeds the maximum, and might overflow
        size *= factor;
    }
    sizes.push_back(last);
    return sizes;
}

std::vector<std::string> words_of(const std::string& list) {
    std::vector<std::string> words;
    std::istringstream in(list);
    for (std::string word; std::getline(in, word, ',');) words.push_back(word);
    return words;
}

}  // namespace tenken
