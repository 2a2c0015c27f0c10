// What must not stay behind when a run is ended from outside: files and folders that SIGTERM, SIGINT and
// SIGHUP remove before they end the process.
#pragma once

#include <string>

namespace tenken {

/// A path that a signal removes for as long as this object lives. It only watches: what becomes of the path
/// otherwise is its owner's business. Folders are removed after all files, and only when they are empty then.
class Unfinished {
  public:
    /// @throws std::runtime_error when the path is too long or there are too many
    explicit Unfinished(const std::string& path);
    ~Unfinished();
    Unfinished(Unfinished&& other) noexcept : slot_(other.slot_) { other.slot_ = -1; }
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;

    /// The longest path that fits, in bytes.
    static constexpr unsigned max_bytes = 4095;
    /// How many there can be at a time.
    static constexpr int maximum = 64;

  private:
    int slot_;
};

}  // namespace tenken
