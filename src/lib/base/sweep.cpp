#include "lib/base/sweep.h"

#include <algorithm>
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

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
    return text;
}

namespace {

/// Whether there are words, all of them allowed and none twice.
bool are_distinct(const std::vector<std::string>& words, const std::vector<std::string>& allowed) {
    return !words.empty() && std::all_of(words.begin(), words.end(), [&](const std::string& word) {
        return std::count(allowed.begin(), allowed.end(), word) > 0 &&
               std::count(words.begin(), words.end(), word) == 1;
    });
}

}  // namespace

std::vector<std::string> distinct_words(const Arguments& arguments, const std::string& option,
                                        const std::string& text, const std::vector<std::string>& allowed) {
    const std::vector<std::string> words = words_of(text);
    if (!are_distinct(words, allowed)) throw arguments.error(option, "distinct values of " + joined(allowed));
    return words;
}

std::vector<std::string> all_or_distinct_words(const Arguments& arguments, const std::string& option,
                                               const std::string& text,
                                               const std::vector<std::string>& allowed,
                                               const std::string& remark) {
    const std::vector<std::string> words = text == "all" ? allowed : words_of(text);
    if (!are_distinct(words, allowed))
        throw arguments.error(option, "all, or distinct values of " + joined(allowed) + remark);
    return words;
}

}  // namespace tenken
