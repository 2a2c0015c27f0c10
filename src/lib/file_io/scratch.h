// Files of a run: in a folder of its own, removed at its end whatever ends it, and seen under their names
// only when they are whole.
#pragma once

#include <memory>
#include <string>

#include "lib/base/unfinished.h"

namespace file_io {

/// A folder within `parent` that no other run has, removed with all that is in it when this object goes or a
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
    /// Waits until the device knows what was created and removed here: a journal, and blocks that are given
    /// back to the device (mount option discard), must not be paid for by the next fsync().
    void settle() const;

  private:
    std::string path_;
    std::unique_ptr<tenken::Unfinished> watched_;
};

/// A file that bears another name (NAME.part) until finish() gives it its own; removed when this object goes
/// or a signal ends the process.
class ScratchFile {
  public:
    /// The file under the temporary name is the caller's to create.
    explicit ScratchFile(const std::string& path);
    ~ScratchFile();
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;

    /// Where it is: NAME.part, after finish() NAME.
    const std::string& path() const { return finished_ ? path_ : temporary_; }
    /// Gives it its name. @throws std::runtime_error with path and reason
    void finish();

  private:
    std::string path_;
    std::string temporary_;
    bool finished_ = false;
    std::unique_ptr<tenken::Unfinished> watched_;
};

}  // namespace file_io
