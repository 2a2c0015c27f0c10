// Tests whether cuFile transfers directly between the device and the GPU, by a trial in which no other path
// is allowed.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace file_io {

/// An environment variable and its value.
typedef std::pair<std::string, std::string> Setting;
typedef std::vector<Setting> Settings;

/// The outcome of a child process that used cuFile with these settings.
struct GdsProbe {
    bool works = false;
    std::string why_not;
};

/// Runs this program again as a separate process, which writes and reads a file at `path` by cuFile. With
/// CUFILE_ALLOW_COMPAT_MODE=false that works only with direct transfers between the device and the GPU.
/// @param gpu index of the GPU within this process
GdsProbe probe_gds(const std::string& path, int gpu, const Settings& settings);

/// Whether this process is such a child, by its command line; then it performs the test and its exit
/// code is written to `code`. To be called first in main().
bool is_gds_probe(int argc, char** argv, int& code);

}  // namespace file_io
