// Where files go: what the file system says of itself, and whether it can take what is to be written.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/optional.h"

namespace file_io {

/// A line of /proc/self/mountinfo, as far as it matters here.
struct Mount {
    std::string point;
    std::string file_system;  ///< "ext4", "lustre", "tmpfs"
    std::string source;       ///< "/dev/nvme0n1p1", "10.0.0.1@o2ib:/work"
    std::string options;      ///< of the mount and of the file system, "rw,noatime,..."
};

/// The mount that a path lies on: the one with the longest mount point that is above it, the last one of
/// those that share it. `path` must be absolute and without links.
/// @param mountinfo the text of /proc/self/mountinfo
tenken::Optional<Mount> find_mount(const std::string& mountinfo, const std::string& path);

/// A folder in which files are to be written.
struct Place {
    std::string folder;  ///< absolute, without links
    Mount mount;
    std::uint64_t block_bytes = 0;
    std::uint64_t total_bytes = 0;
    std::uint64_t free_bytes = 0;                  ///< for this user
    tenken::Optional<std::string> device_model;    ///< of a block device that tells it
    tenken::Optional<std::string> direct_refused;  ///< why O_DIRECT does not work here; absent where it does
    std::uint64_t direct_alignment = 4096;         ///< of offsets, sizes and memory

    /// Whether files here are memory: tmpfs and ramfs have no device behind them.
    bool in_memory() const { return mount.file_system == "tmpfs" || mount.file_system == "ramfs"; }
    /// Writes file system, mount options, device and free space into the document's path.
    void describe(tenken::Document& document) const;
};

/// Looks at a folder and tries to write in it.
/// @throws ArgumentError by arguments.error(option, ...) when it is not a directory, or cannot be written to
Place find_place(const tenken::Arguments& arguments, const std::string& option, const std::string& folder);

/// Refuses to begin what does not fit. A twentieth of what is free stays free.
/// @param what e.g. "two snapshots of 67108864 particles"
/// @throws ArgumentError with the bytes needed and free
void require_space(const tenken::Arguments& arguments, const std::string& option, const Place& place,
                   std::uint64_t bytes, const std::string& what);

}  // namespace file_io
