// One open file and the transfers between it and host memory: through the page cache, bypassing it
// (O_DIRECT), or as mapped memory. Errors contain the file, the offset and the rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace file_io {

/// A file operation failed. The text contains the operation, the file, the offset, the reason and the rank.
class FileError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// " (rank 3)", or nothing if no launcher has set a rank: the end of a message.
std::string of_rank();

/// How data is transferred between a file and host memory.
enum class Access {
    buffered,  ///< read() and write() through the page cache
    direct,    ///< O_DIRECT: bypasses the page cache, in whole pages
    mapped     ///< mmap() and a copy
};

class File {
  public:
    enum class Mode { create, modify, read };
    /// @param with_direct also opens it for Access::direct
    /// @throws FileError
    File(const std::string& path, Mode mode, bool with_direct);
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    const std::string& path() const { return path_; }
    int descriptor() const { return descriptor_; }
    /// The descriptor with O_DIRECT; -1 if not requested.
    int direct_descriptor() const { return direct_; }
    std::uint64_t size() const;

    /// Moves `bytes` at `offset`, all of them. For Access::direct offset and memory must be multiples of
    /// direct_alignment; the rest after the last whole page goes through the page cache.
    /// @throws FileError: the file is too short; the file system is full, over quota or reports an error
    void read(Access access, std::uint64_t offset, std::size_t bytes, void* memory) const;
    void write(Access access, std::uint64_t offset, std::size_t bytes, const void* memory);

    /// Maps `bytes` from the beginning for Access::mapped; space for a file to be written is allocated first,
    /// because a full file system would otherwise end the process. @throws FileError
    void map(std::uint64_t bytes, bool to_write);
    void unmap();

    /// Truncates it, so that it is written again. @throws FileError
    void truncate();
    /// Waits until all data is on the device. @throws FileError
    void sync();
    /// The part of the file that is in the page cache, by mincore(); 0 of an empty file.
    double cached_share() const;
    /// Reads it into the page cache. @return the fraction of it that is then cached
    double warm() const;
    /// Writes back and drops the file from the page cache. @return the fraction that remained cached
    double drop_cache();

    static constexpr std::uint64_t direct_alignment = 4096;

    /// The error for a file without data up to `end`.
    FileError cut_short(std::uint64_t end) const;

  private:
    [[noreturn]] void fail(const std::string& what, std::uint64_t offset) const;

    std::string path_;
    int descriptor_ = -1;
    int direct_ = -1;
    char* map_ = nullptr;
    std::uint64_t mapped_ = 0;
};

}  // namespace file_io
