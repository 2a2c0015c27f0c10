#include "lib/base/gpu_selection.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "lib/base/text_file.h"

namespace tenken {

namespace {

bool is_whole_number(const std::string& text) {
    return !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<std::string> comma_separated(const std::string& text) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    for (;;) {
        const std::size_t comma = text.find(',', begin);
        parts.push_back(trimmed(text.substr(begin, comma - begin)));
        if (comma == std::string::npos) return parts;
        begin = comma + 1;
    }
}

std::runtime_error wrong(const std::string& value, const std::string& what) {
    return std::runtime_error("CUDA_VISIBLE_DEVICES='" + value + "': " + what);
}

}  // namespace

std::vector<int> parse_gpu_list(const std::string& text, int count) {
    std::vector<int> indices;
    if (text == "all") {
        for (int i = 0; i < count; ++i) indices.push_back(i);
        return indices;
    }
    const std::string allowed = "all, or a list such as 0,2 of different indices from 0 to " +
                                std::to_string(count - 1) + " (" + std::to_string(count) +
                                (count == 1 ? " GPU is visible)" : " GPUs are visible)");
    for (const std::string& part : comma_separated(text)) {
        if (!is_whole_number(part)) throw ArgumentError(allowed);
        const int index = std::stoi(part);
        if (index >= count || std::find(indices.begin(), indices.end(), index) != indices.end()) {
            throw ArgumentError(allowed);
        }
        indices.push_back(index);
    }
    return indices;
}

std::vector<std::string> visible_devices(const std::string& value) {
    const std::string allowed =
        "; allowed: a list of indices such as 0,1, or of GPU-... or MIG-... identifiers; unset it to use all";
    if (trimmed(value).empty()) throw wrong(value, "it is empty and hides every GPU" + allowed);
    std::vector<std::string> entries;
    for (const std::string& entry : comma_separated(value)) {
        const bool identifier = entry.compare(0, 4, "GPU-") == 0 || entry.compare(0, 4, "MIG-") == 0;
        if (entry == "-1") throw wrong(value, "-1 hides every GPU from there on" + allowed);
        if (!identifier && !is_whole_number(entry)) {
            throw wrong(value, "'" + entry + "' is neither an index nor an identifier" + allowed);
        }
        if (std::find(entries.begin(), entries.end(), entry) != entries.end()) {
            throw wrong(value, "'" + entry + "' is listed twice" + allowed);
        }
        entries.push_back(entry);
    }
    return entries;
}

void check_visible_devices(const Optional<std::string>& value, int shown) {
    if (!value) return;
    const std::vector<std::string> entries = visible_devices(*value);
    if (static_cast<std::size_t>(shown) < entries.size()) {
        throw wrong(*value,
                    "'" + entries[static_cast<std::size_t>(shown)] + "' is not a GPU of this machine");
    }
}

}  // namespace tenken
