// Files of a run: in a separate folder, removed at its end in every case, and visible under their final names
// only when they are complete.
#pragma once

#include <memory>
#include <string>

#include "lib/base/unfinished.h"

namespace file_io {

/// A folder within `parent` used by no other run, removed with its content when this object is destroyed or a
/// signal ends the process. Its name begins with ".tenken-".
class RunFolder {
  public:
    /// @throws std::runtime_error with the system's reason
    RunFolder(const std::string& parent, const std::string& purpose);
    ~RunFolder();
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;

    const std::string& path() const { return path_; }
    /// The path of a file in it.
    std::string file(const std::string& name) const { return path_ + "/" + name; }
    /// Waits until creations and removals here have reached the device: the next fsync() must not bear the
    /// cost of a journal, or of blocks returned to the device (mount option discard).
    void settle() const;

  private:
    std::string path_;
    std::unique_ptr<tenken::Unfinished> watched_;
};

/// A file with a temporary name (NAME.part) until finish() renames it; removed when this object is destroyed
/// or a signal ends the process.
class ScratchFile {
  public:
    /// The caller creates the file under the temporary name.
    explicit ScratchFile(const std::string& path);
    ~ScratchFile();
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;

    /// Its current path: NAME.part, after finish() NAME.
    const std::string& path() const { return finished_ ? path_ : temporary_; }
    /// Renames it.
    /// @throws std::runtime_error with path and reason
    void finish();

  private:
    std::string path_;
    std::string temporary_;
    bool finished_ = false;
    std::unique_ptr<tenken::Unfinished> watched_;
};

}  // namespace file_io
