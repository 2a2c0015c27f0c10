// Seconds of snapshots as a text file, for another process of the same job: cuFile offers a process either
// GPUDirect Storage or its compatibility mode, so two processes compare them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace snapshot_io {

class SnapshotTimes {
  public:
    /// The name of one configuration: "gpu0 write asis gds 16384". cuFile is "gds" in either mode, so that
    /// the same calls have the same name in both processes.
    static std::string key(const std::string& subject, bool write, const std::string& layout,
                           const std::string& method, unsigned long long particles);

    /// @throws std::runtime_error with path, line and what is wrong
    static SnapshotTimes read(const std::string& path);
    /// @param about the process that measured
    std::string text(const std::string& about) const;

    void add(const std::string& key, const std::vector<double>& seconds) { seconds_[key] = seconds; }
    /// @throws std::runtime_error if there are none
    const std::vector<double>& of(const std::string& key) const;
    const std::string& about() const { return about_; }

  private:
    std::map<std::string, std::vector<double>> seconds_;
    std::string about_;
};

}  // namespace snapshot_io
