// The map from situation and size to the fastest configuration: a text file that any
// program can load.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/file_io/memory_space.h"

namespace file_io {

class StorageMap {
  public:
    struct Entry {
        std::string situation;  ///< "write", "write_synced", "read_cached", "read_cold"
        std::uint64_t bytes;
        IoConfig config;
        double gbs;  ///< when the map was written
    };

    /// Reads a map. @throws std::runtime_error "FILE:LINE: error"
    static StorageMap read(const std::string& path);
    void add(const Entry& entry) { entries_.push_back(entry); }
    /// The text of a map. @param head lines with its origin, without the leading #
    std::string text(const std::vector<std::string>& head) const;
    const std::vector<Entry>& entries() const { return entries_; }
    /// The entry of this situation with the nearest size, by ratio. @throws std::runtime_error if there is
    /// none
    const Entry& choose(const std::string& situation, std::uint64_t bytes) const;

  private:
    std::vector<Entry> entries_;
};

}  // namespace file_io
