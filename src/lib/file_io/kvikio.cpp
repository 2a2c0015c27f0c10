#include "lib/file_io/kvikio.h"

#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lib/base/dynlib.h"
#include "lib/file_io/kvikio/interface.h"

namespace file_io {

namespace {

/// ".../lib/libtenken_kvikio.so" for a program in ".../bin".
std::string beside_program() {
    std::vector<char> path(PATH_MAX);
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
    std::string program(path.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    for (int i = 0; i < 2; ++i)
        program.resize(program.find_last_of('/') == std::string::npos ? 0 : program.find_last_of('/'));
    return program + "/lib/libtenken_kvikio.so";
}

class KvikioIoBackend : public IoBackend {
  public:
    KvikioIoBackend(std::shared_ptr<const Kvikio> kvikio, const IoConfig& config,
                    std::function<bool(const char*)> is_pending, std::function<void()> settle)
        : kvikio_(std::move(kvikio)),
          config_(config),
          is_pending_(std::move(is_pending)),
          settle_(std::move(settle)) {}
    ~KvikioIoBackend() override { close(); }

    void attach(File& file) override {
        check(kvikio_->prepare(config_.threads, config_.block_bytes), file);
        const int flags = fcntl(file.descriptor(), F_GETFL);
        const bool to_write = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
        check(calls().open(file.path().c_str(), to_write ? 1 : 0, &handle_), file);
    }
    void detach(File&) override { close(); }

    void write(File& file, const std::vector<Segment>& segments) override {
        // Data that is ready is transferred while waiting for the rest.
        std::vector<Segment> later;
        for (const Segment& segment : segments) {
            if (is_pending_(segment.memory)) {
                later.push_back(segment);
            } else {
                begin(file, segment, true);
            }
        }
        settle_();
        for (const Segment& segment : later) begin(file, segment, true);
        check(calls().finish(handle_), file);
    }
    void read(File& file, const std::vector<Segment>& segments) override {
        for (const Segment& segment : segments) begin(file, segment, false);
        check(calls().finish(handle_), file);
    }

  private:
    const FileIoKvikio& calls() const { return kvikio_->calls(); }

    void begin(File& file, const Segment& segment, bool to_write) {
        check(calls().begin(handle_, to_write ? 1 : 0, segment.memory, segment.bytes, segment.offset), file);
    }

    static void check(const std::string& said, const File& file) {
        if (!said.empty()) throw FileError("KvikIO, " + file.path() + ": " + said + of_rank());
    }

    void close() {
        if (handle_ != nullptr) calls().close(handle_);
        handle_ = nullptr;
    }

    std::shared_ptr<const Kvikio> kvikio_;
    IoConfig config_;
    std::function<bool(const char*)> is_pending_;
    std::function<void()> settle_;
    void* handle_ = nullptr;
};

}  // namespace

std::shared_ptr<const Kvikio> Kvikio::open(std::string& why_not) {
    using tenken::DynamicLibrary;
    const std::string usual = beside_program();
    const std::vector<std::string> names = DynamicLibrary::names("TENKEN_KVIKIO", {usual});
    if (names.front() == usual && access(usual.c_str(), R_OK) != 0) {
        why_not = "built without KvikIO (CMake option TENKEN_KVIKIO_ROOT)";
        return nullptr;
    }
    std::string error;
    const DynamicLibrary library = DynamicLibrary::open_first(names, error);
    const FileIoKvikio* (*entry)() = nullptr;
    if (!library || !library.load(entry, "file_io_kvikio")) {
        why_not =
            "KvikIO cannot be loaded: " + (library ? library.name() + " has no file_io_kvikio()" : error);
        return nullptr;
    }
    std::shared_ptr<Kvikio> found(new Kvikio);
    found->calls_ = entry();
    if (found->calls_->interface != file_io_kvikio_interface) {
        why_not = library.name() + " is of another version of this program";
        return nullptr;
    }
    // It searches for the GPU driver even if only host memory is transferred.
    const std::string said = found->try_out();
    if (!said.empty()) {
        why_not = "KvikIO does not work: " + said;
        return nullptr;
    }
    return found;
}

std::string Kvikio::try_out() {
    std::string said = prepare(1, 4096);
    void* handle = nullptr;
    if (said.empty()) said = calls_->open("/proc/self/exe", 0, &handle);
    if (!said.empty()) return said;
    by_cufile_ = calls_->by_cufile(handle) != 0;
    char magic[4] = {};
    said = calls_->begin(handle, 0, magic, sizeof magic, 0);
    const std::string ended = calls_->finish(handle);
    calls_->close(handle);
    return said.empty() ? ended : said;
}

std::string Kvikio::prepare(int threads, std::uint64_t task_bytes) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (threads == threads_ && task_bytes == task_bytes_) return "";
    threads_ = threads;
    task_bytes_ = task_bytes;
    return calls_->prepare(static_cast<unsigned>(threads), task_bytes);
}

std::string Kvikio::version() const {
    return calls_->version;
}

std::string Kvikio::way() const {
    return "KvikIO " + version() + (by_cufile_ ? ", by cuFile" : ", by its own copies (compatibility mode)");
}

const Kvikio::Found& Kvikio::here() {
    static const Found found = [] {
        Found one;
        one.library = open(one.why_not);
        return one;
    }();
    return found;
}

std::unique_ptr<IoBackend> make_kvikio_backend(const IoConfig& config,
                                               std::function<bool(const char*)> is_pending,
                                               std::function<void()> settle) {
    const std::shared_ptr<const Kvikio> kvikio = Kvikio::here().library;
    if (!kvikio) throw std::logic_error("make_kvikio_backend: " + Kvikio::here().why_not);
    return std::unique_ptr<IoBackend>(
        new KvikioIoBackend(kvikio, config, std::move(is_pending), std::move(settle)));
}

}  // namespace file_io
