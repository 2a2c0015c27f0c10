// KvikIO, if the build includes it: loaded at run time, so that programs also start without it.
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
    /// The result of one attempt to load it, valid for the whole process.
    struct Found {
        std::shared_ptr<const Kvikio> library;  ///< nothing if it cannot be loaded
        std::string why_not;
    };
    /// Loads the library named by TENKEN_KVIKIO, otherwise libtenken_kvikio.so in the folder `lib` next to
    /// that of this program.
    static const Found& here();

    std::string version() const;
    /// Its version, and its data path.
    std::string way() const;
    /// Threads and task size apply to all of KvikIO. @return the error; otherwise empty
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

/// Transfers by KvikIO's own threads, in tasks of the candidate's block size.
/// @param is_pending whether memory is still being filled by enqueued work; @param settle waits for
/// it
/// @throws std::logic_error without KvikIO
std::unique_ptr<IoBackend> make_kvikio_backend(const IoConfig& config,
                                               std::function<bool(const char*)> is_pending,
                                               std::function<void()> settle);

}  // namespace file_io
