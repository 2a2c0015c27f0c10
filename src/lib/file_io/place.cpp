#include "lib/file_io/place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <vector>

#include "lib/base/text_file.h"
#include "lib/file_io/scratch.h"

namespace file_io {

namespace {

/// Blanks within a field of mountinfo are encoded in octal.
std::string unescaped(const std::string& field) {
    std::string text;
    for (std::size_t i = 0; i < field.size(); ++i) {
        if (field[i] == '\\' && i + 3 < field.size()) {
            text += static_cast<char>(std::strtol(field.substr(i + 1, 3).c_str(), nullptr, 8));
            i += 3;
        } else {
            text += field[i];
        }
    }
    return text;
}

bool is_above(const std::string& point, const std::string& path) {
    if (point == "/") return true;
    return path.compare(0, point.size(), point) == 0 &&
           (path.size() == point.size() || path[point.size()] == '/');
}

/// Why O_DIRECT does not work in a folder: opening, or the first write, is refused.
tenken::Optional<std::string> try_direct(const RunFolder& folder) {
    const std::string path = folder.file("direct");
    const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
    if (descriptor < 0) return "open with O_DIRECT: " + std::string(std::strerror(errno));
    void* memory = nullptr;
    tenken::Optional<std::string> refused;
    if (posix_memalign(&memory, 4096, 4096) != 0) {
        refused = std::string("out of memory");
    } else {
        std::memset(memory, 0, 4096);
        if (pwrite(descriptor, memory, 4096, 0) != 4096) {
            refused = "write with O_DIRECT: " + std::string(std::strerror(errno));
        }
        std::free(memory);
    }
    close(descriptor);
    unlink(path.c_str());
    return refused;
}

}  // namespace

tenken::Optional<Mount> find_mount(const std::string& mountinfo, const std::string& path) {
    tenken::Optional<Mount> best;
    std::istringstream lines(mountinfo);
    std::string line;
    while (std::getline(lines, line)) {
        std::istringstream words(line);
        std::vector<std::string> fields;
        std::string word;
        while (words >> word) fields.push_back(word);
        std::size_t dash = 6;
        while (dash < fields.size() && fields[dash] != "-") ++dash;
        if (dash + 3 >= fields.size()) continue;
        const std::string point = unescaped(fields[4]);
        if (!is_above(point, path) || (best && best->point.size() > point.size())) continue;
        Mount mount;
        mount.point = point;
        mount.file_system = fields[dash + 1];
        mount.source = unescaped(fields[dash + 2]);
        mount.options = fields[5] + "," + fields[dash + 3];
        best = mount;
    }
    return best;
}

Mount unlisted_mount(std::uint64_t statfs_type) {
    // statfs(2), and the sources of the parallel file systems; ext2, ext3 and ext4 share one type
    static const std::map<std::uint64_t, const char*> names{
        {0xEF53, "ext4"},     {0x58465342, "xfs"},    {0x9123683E, "btrfs"}, {0xF2F52010, "f2fs"},
        {0x2FC12FC1, "zfs"},  {0x01021994, "tmpfs"},  {0x858458F6, "ramfs"}, {0x794C7630, "overlay"},
        {0x6969, "nfs"},      {0xFF534D42, "cifs"},   {0x65735546, "fuse"},  {0x0BD00BD0, "lustre"},
        {0x47504653, "gpfs"}, {0x19830326, "beegfs"}, {0x00C36400, "ceph"},  {0x73717368, "squashfs"},
    };
    const auto name = names.find(statfs_type);
    Mount mount;
    mount.file_system = name == names.end() ? "unknown" : name->second;
    mount.point = mount.source = mount.options = "unknown: not in /proc/self/mountinfo";
    return mount;
}

void Place::describe(tenken::Document& document) const {
    document.path("folder", folder);
    document.path("file_system", mount.file_system);
    document.path("mount_point", mount.point);
    document.path("mount_options", mount.options);
    document.path("device", mount.source);
    if (device_model) document.path("device_model", *device_model);
    document.path("file_system_block_bytes", block_bytes);
    document.path("file_system_total_bytes", total_bytes);
    document.path("file_system_free_bytes", free_bytes);
    document.path("o_direct", direct_refused ? "refused by " + mount.file_system + ": " + *direct_refused
                                             : std::string("accepted"));
    if (in_memory())
        document.path("note.file_system", "files on " + mount.file_system + " are memory, no storage");
}

Place find_place(const tenken::Arguments& arguments, const std::string& option, const std::string& folder) {
    const auto refuse = [&](const std::string& why) {
        return arguments.error(option, "an existing folder that can be written to: " + why);
    };
    struct stat found;
    if (stat(folder.c_str(), &found) != 0) throw refuse(std::strerror(errno));
    if (!S_ISDIR(found.st_mode)) throw refuse("it is not a directory");
    char real[PATH_MAX];
    if (realpath(folder.c_str(), real) == nullptr) throw refuse(std::strerror(errno));
    Place place;
    place.folder = real;
    const tenken::Optional<Mount> mount =
        find_mount(tenken::read_text("/proc/self/mountinfo").value_or(""), real);
    struct statfs type;
    if (statfs(real, &type) != 0) throw refuse(std::strerror(errno));
    // the type is a signed word of 32 or 64 bits, of which file systems use 32
    place.mount = mount ? *mount : unlisted_mount(static_cast<std::uint32_t>(type.f_type));
    struct statvfs space;
    if (statvfs(real, &space) != 0) throw refuse(std::strerror(errno));
    place.block_bytes = space.f_bsize;
    place.total_bytes = std::uint64_t{space.f_blocks} * space.f_frsize;
    place.free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
    const std::string block =
        "/sys/dev/block/" + std::to_string(major(found.st_dev)) + ":" + std::to_string(minor(found.st_dev));
    for (const char* name : {"/device/model", "/../device/model"}) {
        const tenken::Optional<std::string> model = tenken::read_text(block + name);
        if (model && !place.device_model) place.device_model = tenken::trimmed(*model);
    }
    try {
        const RunFolder probe(place.folder, "probe");
        place.direct_refused = try_direct(probe);
    } catch (const std::runtime_error& error) {
        throw refuse(error.what());
    }
    return place;
}

void require_space(const tenken::Arguments& arguments, const std::string& option, const Place& place,
                   std::uint64_t bytes, const std::string& what) {
    const std::uint64_t maximum = place.free_bytes / 20 * 19;
    if (bytes <= maximum) return;
    throw arguments.error(option, "a folder with room for " + what + ": needed " +
                                      tenken::format_bytes(bytes) + ", free " +
                                      tenken::format_bytes(place.free_bytes) + " on " +
                                      place.mount.file_system + " at " + place.mount.point);
}

}  // namespace file_io
