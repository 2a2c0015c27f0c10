// KvikIO, where the build was given it: loaded while running, so that programs start where it is not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "lib/file_io/memory_space.h"

struct FileIoKvikio;

namespace file_io {

class Kvikio {
  public:
    /// What one try has found, once for all of the process.
    struct Found {
        std::shared_ptr<const Kvikio> library;  ///< nothing when it cannot be had
        std::string why_not;
    };
    /// Loads the library named by TENKEN_KVIKIO, else libtenken_kvikio.so of the folder `lib` beside that of
    /// this program.
    static const Found& here();

    std::string version() const;
    /// Its version, and by what its bytes go.
    std::string way() const;
    /// Threads and task size are those of all of KvikIO. @return what went wrong; else empty
    std::string prepare(int threads, std::uint64_t task_bytes) const;
    const FileIoKvikio& calls() const { return *calls_; }

  private:
    Kvikio() = default;
    static std::shared_ptr<const Kvikio> open(std::string& why_not);
    std::string try_out();

    const FileIoKvikio* calls_ = nullptr;
    bool by_cufile_ = false;
    mutable std::mutex mutex_;
    mutable int threads_ = 0;
    mutable std::uint64_t task_bytes_ = 0;
};

/// Moves by KvikIO's own threads, tasks of the candidate's block size.
/// @param is_pending whether memory is still being filled by work that was enqueued; @param settle waits for
/// that
/// @throws std::logic_error where there is no KvikIO
std::unique_ptr<IoBackend> make_kvikio_backend(const IoConfig& config,
                                               std::function<bool(const char*)> is_pending,
                                               std::function<void()> settle);

}  // namespace file_io
