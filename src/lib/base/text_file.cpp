#include "lib/base/text_file.h"

#include <dirent.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace tenken {

std::string trimmed(const std::string& text) {
    const char* const blanks = " \t\r\n";
    const std::size_t first = text.find_first_not_of(blanks);
    if (first == std::string::npos) return "";
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

Optional<std::string> read_text(const std::string& path) {
    std::ifstream file(path);
    if (!file) return {};
    std::ostringstream content;
    content << file.rdbuf();
    std::string text = content.str();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

Optional<std::uint64_t> read_number(const std::string& path) {
    const Optional<std::string> text = read_text(path);
    if (!text) return {};
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(text->c_str(), &end, 10);
    if (end == text->c_str()) return {};
    return value;
}

std::vector<int> numbered_entries(const std::string& folder, const std::string& prefix) {
    std::set<int> numbers;
    DIR* const opened = opendir(folder.c_str());
    if (opened == nullptr) return {};
    while (const dirent* entry = readdir(opened)) {
        const std::string name = entry->d_name;
        if (name.size() <= prefix.size() || name.compare(0, prefix.size(), prefix) != 0) continue;
        const std::string rest = name.substr(prefix.size());
        if (rest.find_first_not_of("0123456789") == std::string::npos) numbers.insert(std::stoi(rest));
    }
    closedir(opened);
    return {numbers.begin(), numbers.end()};
}

std::vector<int> parse_cpu_list(const std::string& text) {
    std::vector<int> numbers;
    std::istringstream parts(trimmed(text));
    std::string part;
    while (std::getline(parts, part, ',')) {
        char* end = nullptr;
        const long first = std::strtol(part.c_str(), &end, 10);
        if (end == part.c_str()) return {};
        long last = first;
        if (*end == '-') last = std::strtol(end + 1, &end, 10);
        if (*end != '\0' || first < 0 || last < first || last - first > 1000000) return {};
        for (long i = first; i <= last; ++i) numbers.push_back(static_cast<int>(i));
    }
    return numbers;
}

Optional<std::string> field(const std::string& text, const std::string& key) {
    std::istringstream lines(text);
    std::string line;
    while (std::getline(lines, line)) {
        const std::size_t colon = line.find(':');
        if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key) {
            return trimmed(line.substr(colon + 1));
        }
    }
    return {};
}

}  // namespace tenken
