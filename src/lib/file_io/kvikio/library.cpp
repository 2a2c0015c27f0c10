// KvikIO behind a C interface.
#include <exception>
#include <future>
#include <kvikio/defaults.hpp>
#include <kvikio/file_handle.hpp>
#include <kvikio/version_config.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lib/file_io/kvikio/interface.h"

namespace {

thread_local std::string said;

/// Runs work; returns the text of its exception.
template <typename Work>
const char* attempt(const Work& work) {
    said.clear();
    try {
        work();
    } catch (const std::exception& error) {
        said = error.what();
        if (said.empty()) said = "an error without a message";
    }
    return said.c_str();
}

struct Open {
    kvikio::FileHandle file;
    std::vector<std::pair<std::future<std::size_t>, std::size_t>> under_way;  ///< with the requested bytes
};

const char* prepare(unsigned threads, std::size_t task_bytes) {
    return attempt([&] {
        kvikio::defaults::set_num_threads(threads);
        kvikio::defaults::set_task_size(task_bytes);
    });
}

const char* open_file(const char* path, int to_write, void** handle) {
    return attempt([&] { *handle = new Open{kvikio::FileHandle(path, to_write != 0 ? "r+" : "r"), {}}; });
}

void close_file(void* handle) {
    delete static_cast<Open*>(handle);
}

int by_cufile(void* handle) {
    return static_cast<Open*>(handle)->file.get_compat_mode_manager().is_compat_mode_preferred() ? 0 : 1;
}

const char* begin(void* handle, int to_write, void* memory, std::size_t bytes, std::size_t offset) {
    return attempt([&] {
        Open& open = *static_cast<Open*>(handle);
        open.under_way.emplace_back(
            to_write != 0 ? open.file.pwrite(memory, bytes, offset) : open.file.pread(memory, bytes, offset),
            bytes);
    });
}

const char* finish(void* handle) {
    Open& open = *static_cast<Open*>(handle);
    std::string first;
    for (auto& [moved, asked] : open.under_way) {
        attempt([&] {
            const std::size_t bytes = moved.get();
            if (bytes != asked)
                throw std::runtime_error(std::to_string(bytes) + " of " + std::to_string(asked) +
                                         " bytes were moved");
        });
        if (first.empty()) first = said;
    }
    open.under_way.clear();
    said = first;
    return said.c_str();
}

const FileIoKvikio calls = {
    file_io_kvikio_interface, KvikIO_VERSION, prepare, open_file, close_file, by_cufile, begin, finish};

}  // namespace

extern "C" const FileIoKvikio* file_io_kvikio() {
    return &calls;
}
