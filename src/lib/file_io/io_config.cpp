#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "lib/file_io/memory_space.h"

namespace file_io {

std::string short_bytes(std::uint64_t bytes) {
    const char* const units[] = {"gi", "mi", "ki"};
    for (int i = 0; i < 3; ++i) {
        const std::uint64_t unit = std::uint64_t{1} << (30 - 10 * i);
        if (bytes >= unit && bytes % unit == 0) return std::to_string(bytes / unit) + units[i];
    }
    return std::to_string(bytes);
}

std::string IoConfig::name() const {
    return method + "_" + short_bytes(block_bytes) + "_" + std::to_string(threads);
}

IoConfig IoConfig::of(const std::string& name) {
    const auto wrong = [&] {
        return std::invalid_argument("'" + name +
                                     "' is not of the form METHOD_BLOCK_THREADS, such as posix_1mi_8");
    };
    const std::size_t last = name.rfind('_');
    const std::size_t middle = last == std::string::npos || last == 0 ? last : name.rfind('_', last - 1);
    if (last == std::string::npos || middle == std::string::npos || middle == 0) throw wrong();
    IoConfig config;
    config.method = name.substr(0, middle);
    char* end = nullptr;
    const std::string block = name.substr(middle + 1, last - middle - 1);
    const std::string threads = name.substr(last + 1);
    config.block_bytes = std::strtoull(block.c_str(), &end, 10);
    const std::string unit = end;
    config.block_bytes <<= unit == "ki" ? 10 : unit == "mi" ? 20 : unit == "gi" ? 30 : 0;
    if (end == block.c_str() || (unit != "" && unit != "ki" && unit != "mi" && unit != "gi")) throw wrong();
    config.threads = static_cast<int>(std::strtol(threads.c_str(), &end, 10));
    if (*end != '\0' || config.threads < 1 || config.threads > 1024) throw wrong();
    if (config.block_bytes < 4096 || config.block_bytes > (std::uint64_t{1} << 30) ||
        config.block_bytes % 4096 != 0) {
        throw wrong();
    }
    return config;
}

IoConfig IoConfig::fitted(std::uint64_t bytes) const {
    IoConfig fitted = *this;
    const std::uint64_t pages = std::max<std::uint64_t>(1, (bytes + 4095) / 4096);
    fitted.block_bytes = std::min(block_bytes, pages * 4096);
    const std::uint64_t blocks =
        std::max<std::uint64_t>(1, (bytes + fitted.block_bytes - 1) / fitted.block_bytes);
    fitted.threads = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(threads), blocks));
    return fitted;
}

Blocks::Blocks(const std::vector<Segment>& segments, std::uint64_t block_bytes)
    : segments_(segments), block_bytes_(block_bytes), starts_(1, 0) {
    for (const Segment& segment : segments) {
        starts_.push_back(starts_.back() + (segment.bytes + block_bytes - 1) / block_bytes);
    }
}

Segment Blocks::at(std::uint64_t index) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), index);
    const std::size_t which = static_cast<std::size_t>(after - starts_.begin()) - 1;
    const Segment& segment = segments_[which];
    const std::uint64_t begin = (index - starts_[which]) * block_bytes_;
    return {segment.offset + begin, std::min(block_bytes_, segment.bytes - begin), segment.memory + begin};
}

}  // namespace file_io
