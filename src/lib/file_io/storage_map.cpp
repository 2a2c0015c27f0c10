#include "lib/file_io/storage_map.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace file_io {

namespace {

constexpr const char* first_line = "# tenken storage map 1";

}  // namespace

StorageMap StorageMap::read(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": " + std::strerror(errno));
    StorageMap map;
    std::string line;
    for (long number = 1; std::getline(file, line); ++number) {
        const auto wrong = [&](const std::string& what) {
            return std::runtime_error(path + ":" + std::to_string(number) + ": " + what);
        };
        if (number == 1 && line != first_line)
            throw wrong(std::string("a map begins with '") + first_line + "'");
        if (line.empty() || line[0] == '#') continue;
        std::istringstream words(line);
        Entry entry;
        std::string config;
        std::string rest;
        if (!(words >> entry.situation >> entry.bytes >> config >> entry.gbs) || words >> rest ||
            entry.bytes == 0 || !(entry.gbs > 0) || !std::isfinite(entry.gbs)) {
            throw wrong("allowed: SITUATION BYTES METHOD_BLOCK_THREADS GBS: '" + line + "'");
        }
        try {
            entry.config = IoConfig::of(config);
        } catch (const std::invalid_argument& error) {
            throw wrong(error.what());
        }
        map.add(entry);
    }
    if (map.entries_.empty()) throw std::runtime_error(path + ": the map has no entries");
    return map;
}

std::string StorageMap::text(const std::vector<std::string>& head) const {
    std::ostringstream out;
    out << first_line << '\n';
    for (const std::string& line : head) out << "# " << line << '\n';
    out << "# situation bytes method_block_threads GB/s\n";
    for (const Entry& entry : entries_) {
        out << entry.situation << ' ' << entry.bytes << ' ' << entry.config.name() << ' ' << entry.gbs
            << '\n';
    }
    return out.str();
}

const StorageMap::Entry& StorageMap::choose(const std::string& situation, std::uint64_t bytes) const {
    const Entry* best = nullptr;
    double distance = 0;
    for (const Entry& entry : entries_) {
        if (entry.situation != situation) continue;
        const double here =
            std::fabs(std::log(static_cast<double>(entry.bytes)) - std::log(static_cast<double>(bytes)));
        if (best != nullptr && here >= distance) continue;
        best = &entry;
        distance = here;
    }
    if (best == nullptr) throw std::runtime_error("the map has no entry for " + situation);
    return *best;
}

}  // namespace file_io
