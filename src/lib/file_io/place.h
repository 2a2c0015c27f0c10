// Location of files: properties of the file system, and whether it has enough free space.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/arguments.h"
#include "lib/base/document.h"
#include "lib/base/optional.h"

namespace file_io {

/// The fields of a line of /proc/self/mountinfo that are used here.
struct Mount {
    std::string point;
    std::string file_system;  ///< "ext4", "lustre", "tmpfs"
    std::string source;       ///< "/dev/nvme0n1p1", "10.0.0.1@o2ib:/work"
    std::string options;      ///< of the mount and of the file system, "rw,noatime,..."
};

/// The mount that contains a path: the one with the longest mount point above it, and the last one of
/// several at the same point. `path` must be absolute and without links.
/// @param mountinfo the text of /proc/self/mountinfo
tenken::Optional<Mount> find_mount(const std::string& mountinfo, const std::string& path);

/// The mount of a path outside of all mounts that the kernel lists, as in a chroot: statfs(2) gives the type
/// of the file system; everything else is unknown.
Mount unlisted_mount(std::uint64_t statfs_type);

/// A folder in which files are to be written.
struct Place {
    std::string folder;  ///< absolute, without links
    Mount mount;
    std::uint64_t block_bytes = 0;
    std::uint64_t total_bytes = 0;
    std::uint64_t free_bytes = 0;                  ///< for this user
    tenken::Optional<std::string> device_model;    ///< of a block device that reports it
    tenken::Optional<std::string> direct_refused;  ///< why O_DIRECT does not work here; absent if it does
    std::uint64_t direct_alignment = 4096;         ///< of offsets, sizes and memory

    /// Whether files here are memory: tmpfs and ramfs have no device behind them.
    bool in_memory() const { return mount.file_system == "tmpfs" || mount.file_system == "ramfs"; }
    /// Writes file system, mount options, device and free space into the document's path.
    void describe(tenken::Document& document) const;
};

/// Examines a folder and tries to write in it.
/// @throws ArgumentError by arguments.error(option, ...) if it is not a directory, or cannot be written to
Place find_place(const tenken::Arguments& arguments, const std::string& option, const std::string& folder);

/// Rejects sizes that do not fit, in advance. A twentieth of the free space remains free.
/// @param what e.g. "two snapshots of 67108864 particles"
/// @throws ArgumentError with the required and free bytes
void require_space(const tenken::Arguments& arguments, const std::string& option, const Place& place,
                   std::uint64_t bytes, const std::string& what);

}  // namespace file_io
