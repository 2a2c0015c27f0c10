#include "lib/file_io/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace file_io {

RunFolder::RunFolder(const std::string& parent, const std::string& purpose) {
    const std::string pattern = parent + "/.tenken-" + purpose + "-XXXXXX";
    std::vector<char> name(pattern.begin(), pattern.end());
    name.push_back('\0');
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(std::strerror(errno));
    path_ = name.data();
    watched_.reset(new tenken::Unfinished(path_));
}

RunFolder::~RunFolder() {
    if (DIR* const folder = opendir(path_.c_str())) {
        while (const dirent* const entry = readdir(folder)) {
            const std::string name = entry->d_name;
            if (name != "." && name != "..") unlink(file(name).c_str());
        }
        closedir(folder);
    }
    rmdir(path_.c_str());
}

void RunFolder::settle() const {
    const int folder = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    fsync(folder);  // a file system without this call has nothing pending
    close(folder);
}

ScratchFile::ScratchFile(const std::string& path)
    : path_(path), temporary_(path + ".part"), watched_(new tenken::Unfinished(temporary_)) {}

ScratchFile::~ScratchFile() {
    unlink(this->path().c_str());
}

void ScratchFile::finish() {
    std::unique_ptr<tenken::Unfinished> watched(new tenken::Unfinished(path_));
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
        throw std::runtime_error("cannot rename " + temporary_ + " to " + path_ + ": " +
                                 std::strerror(errno));
    }
    finished_ = true;
    watched_ = std::move(watched);
}

}  // namespace file_io
