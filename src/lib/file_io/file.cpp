#include "lib/file_io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "lib/base/rank.h"

namespace file_io {

std::string of_rank() {
    const std::string rank = tenken::launcher_rank();
    return rank.empty() ? "" : " (rank " + rank + ")";
}

File::File(const std::string& path, Mode mode, bool with_direct) : path_(path) {
    const int how = (mode == Mode::read ? O_RDONLY : O_RDWR) | (mode == Mode::create ? O_CREAT | O_TRUNC : 0);
    descriptor_ = open(path.c_str(), how | O_CLOEXEC, 0666);
    if (descriptor_ < 0) throw FileError("cannot open " + path + ": " + std::strerror(errno) + of_rank());
    if (!with_direct) return;
    direct_ = open(path.c_str(), (mode == Mode::read ? O_RDONLY : O_RDWR) | O_DIRECT | O_CLOEXEC);
    if (direct_ < 0) {
        const std::string why = std::strerror(errno);
        close(descriptor_);
        throw FileError("cannot open " + path + " with O_DIRECT: " + why + of_rank());
    }
}

File::~File() {
    unmap();
    if (direct_ >= 0) close(direct_);
    close(descriptor_);
}

void File::fail(const std::string& what, std::uint64_t offset) const {
    throw FileError(what + " " + path_ + " at offset " + std::to_string(offset) + ": " +
                    std::strerror(errno) + of_rank());
}

FileError File::cut_short(std::uint64_t end) const {
    return FileError(path_ + " is cut short: it ends at offset " + std::to_string(size()) +
                     ", where bytes up to offset " + std::to_string(end) + " were to be read" + of_rank());
}

std::uint64_t File::size() const {
    struct stat found;
    if (fstat(descriptor_, &found) != 0) fail("cannot get the size of", 0);
    return static_cast<std::uint64_t>(found.st_size);
}

void File::read(Access access, std::uint64_t offset, std::size_t bytes, void* memory) const {
    char* at = static_cast<char*>(memory);
    if (access == Access::mapped) {
        if (offset + bytes > mapped_) throw cut_short(offset + bytes);
        std::memcpy(at, map_ + offset, bytes);
        return;
    }
    while (bytes > 0) {
        const bool direct = access == Access::direct && bytes >= direct_alignment;
        const std::size_t part = direct ? bytes / direct_alignment * direct_alignment : bytes;
        const ssize_t count = pread(direct ? direct_ : descriptor_, at, part, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail(direct ? "cannot read with O_DIRECT" : "cannot read", offset);
        if (count == 0) throw cut_short(offset + bytes);
        at += count;
        offset += static_cast<std::uint64_t>(count);
        bytes -= static_cast<std::size_t>(count);
        // A truncated file may end within a page: the rest is read without O_DIRECT.
        if (direct && static_cast<std::size_t>(count) % direct_alignment != 0) access = Access::buffered;
    }
}

void File::write(Access access, std::uint64_t offset, std::size_t bytes, const void* memory) {
    const char* at = static_cast<const char*>(memory);
    if (access == Access::mapped) {
        if (offset + bytes > mapped_) throw std::logic_error("File::write: beyond what is mapped");
        std::memcpy(map_ + offset, at, bytes);
        return;
    }
    while (bytes > 0) {
        const bool direct = access == Access::direct && bytes >= direct_alignment;
        const std::size_t part = direct ? bytes / direct_alignment * direct_alignment : bytes;
        const ssize_t count = pwrite(direct ? direct_ : descriptor_, at, part, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail(direct ? "cannot write with O_DIRECT" : "cannot write", offset);
        at += count;
        offset += static_cast<std::uint64_t>(count);
        bytes -= static_cast<std::size_t>(count);
        if (direct && static_cast<std::size_t>(count) % direct_alignment != 0) access = Access::buffered;
    }
}

void File::map(std::uint64_t bytes, bool to_write) {
    unmap();
    if (to_write) {
        const int result = posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
        errno = result;
        if (result != 0) fail("cannot allocate space for", 0);
    } else {
        bytes = std::min(bytes, size());
    }
    if (bytes == 0) return;
    void* const map =
        mmap(nullptr, bytes, to_write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, descriptor_, 0);
    if (map == MAP_FAILED) fail("cannot map", 0);
    map_ = static_cast<char*>(map);
    mapped_ = bytes;
}

void File::unmap() {
    if (map_ != nullptr) munmap(map_, mapped_);
    map_ = nullptr;
    mapped_ = 0;
}

void File::truncate() {
    unmap();
    if (ftruncate(descriptor_, 0) != 0) fail("cannot empty", 0);
}

void File::sync() {
    if (fsync(descriptor_) != 0) fail("cannot flush", 0);
}

double File::cached_share() const {
    const std::uint64_t bytes = size();
    if (bytes == 0) return 0;
    const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    void* const map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (map == MAP_FAILED) fail("cannot map", 0);
    std::vector<unsigned char> pages((bytes + page - 1) / page);
    const bool known = mincore(map, bytes, pages.data()) == 0;
    munmap(map, bytes);
    if (!known) fail("cannot query the pages of", 0);
    const auto cached =
        std::count_if(pages.begin(), pages.end(), [](unsigned char one) { return (one & 1) != 0; });
    return static_cast<double>(cached) / static_cast<double>(pages.size());
}

double File::warm() const {
    const double share = cached_share();
    if (share == 1) return share;
    std::vector<char> piece(std::size_t{1} << 20);
    const std::uint64_t bytes = size();
    for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
        read(Access::buffered, at,
             static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - at)), piece.data());
    }
    return cached_share();
}

double File::drop_cache() {
    sync();
    posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    return cached_share();
}

}  // namespace file_io
