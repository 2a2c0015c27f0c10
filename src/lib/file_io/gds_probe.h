// Finding out whether cuFile goes straight from the device to the GPU, by trying it where it may not do
// otherwise.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace file_io {

/// A variable of the environment and its value.
typedef std::pair<std::string, std::string> Setting;
typedef std::vector<Setting> Settings;

/// What a child process came to that used cuFile with such settings.
struct GdsProbe {
    bool works = false;
    std::string why_not;
};

/// Runs this program again as a process of its own, which writes and reads a file at `path` by cuFile. With
/// CUFILE_ALLOW_COMPAT_MODE=false that works only where the bytes go straight from the device to the GPU.
/// @param gpu index of the GPU within this process
GdsProbe probe_gds(const std::string& path, int gpu, const Settings& settings);

/// Whether this process is such a child, by its command line; then it does what it is there for and its exit
/// code is written to `code`. To be asked first of all in main().
bool is_gds_probe(int argc, char** argv, int& code);

}  // namespace file_io
