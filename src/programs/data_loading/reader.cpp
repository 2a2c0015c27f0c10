#include "programs/data_loading/reader.h"

#include <algorithm>
#include <mutex>

#include "lib/file_io/file.h"

namespace data_loading {

namespace {

using file_io::File;
using file_io::Hdf5;
using file_io::IoConfig;
using file_io::MemorySpace;

/// Without HDF5: a separate back end per thread, so that threads share only the file system.
class FileReader : public Reader {
  public:
    FileReader(MemorySpace& space, const IoConfig& config) : space_(space.for_this_thread()) {
        io_backend_ = space_->io_backend(config);
    }
    void read(const std::string& path, std::uint64_t bytes, char* memory) override {
        File file(path, File::Mode::read, io_backend_->needs_direct());
        io_backend_->attach(file);
        try {
            io_backend_->read(file, {{0, bytes, memory}});
            space_->wait();
        } catch (...) {
            io_backend_->detach(file);
            throw;
        }
        io_backend_->detach(file);
    }

  private:
    std::unique_ptr<MemorySpace> space_;
    std::unique_ptr<file_io::IoBackend> io_backend_;
};

/// Closes an identifier at the end of a block.
class Closing {
  public:
    Closing(Hdf5::Id one, int (*close)(Hdf5::Id)) : one_(one), close_(close) {}
    ~Closing() { close_(one_); }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;
    Hdf5::Id get() const { return one_; }

  private:
    Hdf5::Id one_;
    int (*close_)(Hdf5::Id);
};

/// One call at a time: a thread-safe build of HDF5 serialises calls by its own lock, and the usual
/// build is not thread-safe.
std::mutex& one_at_a_time() {
    static std::mutex mutex;
    return mutex;
}

class Hdf5Reader : public Reader {
  public:
    Hdf5Reader(MemorySpace& space, std::uint64_t largest, std::shared_ptr<const Hdf5> library)
        : space_(space.for_this_thread()), library_(std::move(library)) {
        if (!space_->is_host()) staging_ = space_->staging(largest);
    }
    void read(const std::string& path, std::uint64_t bytes, char* memory) override {
        char* const to = space_->is_host() ? memory : staging_.get();
        {
            const std::lock_guard<std::mutex> lock(one_at_a_time());
            const Hdf5& h = *library_;
            const Closing file(h.check(h.open_file(path.c_str(), 0, 0), "open " + path), h.close_file);
            const Closing data(h.check(h.open_dataset(file.get(), "data", 0), "open dataset data of " + path),
                               h.close_dataset);
            const Closing space(h.check(h.space_of(data.get()), "query a shape"), h.close_space);
            Hdf5::Size shape[32] = {0};
            if (h.extent(space.get(), shape, nullptr) != 1 || shape[0] != bytes / 4) {
                throw file_io::FileError(path + ": dataset data has another shape than " +
                                         std::to_string(bytes / 4) + file_io::of_rank());
            }
            h.check(h.read(data.get(), h.native_float, 0, 0, 0, to), "read dataset data of " + path);
        }
        if (space_->is_host()) return;
        space_->from_host(memory, to, bytes);
        space_->wait();
    }

  private:
    std::unique_ptr<MemorySpace> space_;
    std::shared_ptr<const Hdf5> library_;
    file_io::Memory staging_;
};

}  // namespace

std::unique_ptr<Reader> make_reader(MemorySpace& space, const IoConfig& config, std::uint64_t largest,
                                    const std::shared_ptr<const Hdf5>& library) {
    space.enter_thread();
    if (by_hdf5(config.method)) {
        return std::unique_ptr<Reader>(new Hdf5Reader(space, largest, library));
    }
    // A sample is read by one thread; KvikIO has its own threads, shared by all.
    IoConfig one = config.fitted(largest);
    one.threads = config.method == "kvikio" ? config.threads : 1;
    return std::unique_ptr<Reader>(new FileReader(space, one));
}

std::uint64_t write_hdf5(const Hdf5& h, const std::string& path, std::uint64_t bytes, const char* memory) {
    constexpr unsigned truncate = 2;
    constexpr int alloc_early = 1;
    const std::lock_guard<std::mutex> lock(one_at_a_time());
    const Closing access(h.check(h.create_list(h.file_access_class), "create a property list"), h.close_list);
    h.check(h.set_alignment(access.get(), 4096, File::direct_alignment), "align datasets");
    const Closing file(h.check(h.create_file(path.c_str(), truncate, 0, access.get()), "create " + path),
                       h.close_file);
    const Closing creation(h.check(h.create_list(h.dataset_create_class), "create a property list"),
                           h.close_list);
    h.check(h.set_alloc_time(creation.get(), alloc_early), "ask for space");
    const Hdf5::Size shape[1] = {bytes / 4};
    const Closing space(h.check(h.create_space(1, shape, nullptr), "make a space"), h.close_space);
    const Closing data(
        h.check(h.create_dataset(file.get(), "data", h.file_float, space.get(), 0, creation.get(), 0),
                "create dataset data in " + path),
        h.close_dataset);
    h.check(h.write(data.get(), h.native_float, 0, 0, 0, memory), "write dataset data of " + path);
    return h.offset_of(data.get());
}

}  // namespace data_loading
