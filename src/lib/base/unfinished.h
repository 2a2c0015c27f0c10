// Temporary files and folders of an interrupted run: SIGTERM, SIGINT and SIGHUP remove them before they end
// the process.
#pragma once

#include <string>

namespace tenken {

/// A path that a signal removes during the lifetime of this object. Otherwise the owner is responsible for
/// the path. Folders are removed after all files, and only if they are then empty.
class Unfinished {
  public:
    /// @throws std::runtime_error if the path is too long or there are too many
    explicit Unfinished(const std::string& path);
    ~Unfinished();
    Unfinished(Unfinished&& other) noexcept : slot_(other.slot_) { other.slot_ = -1; }
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;

    /// Maximum length of a path, in bytes.
    static constexpr unsigned max_bytes = 4095;
    /// Maximum number at a time.
    static constexpr int maximum = 64;

  private:
    int slot_;
};

}  // namespace tenken
