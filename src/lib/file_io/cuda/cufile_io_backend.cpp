// Transfer of blocks by cuFile.
#include <atomic>

#include "lib/file_io/cuda/gpu_memory_space.h"

namespace file_io {

namespace {

/// No work of a thread outlives the data that it refers to, even if an error leaves the block.
struct Settled {
    const ReadyThread& thread;
    ~Settled() { thread.settle(); }
};

/// By cuFile, by any path.
class CuFileIoBackend : public IoBackend {
  public:
    CuFileIoBackend(const IoConfig& config, GpuMemorySpace& space)
        : config_(config), space_(space), buffered_(config.method == "cufile_compat_buffered") {}
    ~CuFileIoBackend() override {
        space_.launcher().disarm();
        if (handle_ != nullptr) space_.cufile().remove(handle_);
    }
    void expect_packing() override {
        if (GpuMemorySpace::has_cpu_beside(config_.threads)) space_.launcher().arm();
    }
    bool needs_direct() const override { return !buffered_; }
    void attach(File& file) override {
        handle_ = space_.cufile().add(buffered_ ? file.descriptor() : file.direct_descriptor(), file.path());
    }
    void detach(File&) override {
        space_.launcher().disarm();
        if (handle_ != nullptr) space_.cufile().remove(handle_);
        handle_ = nullptr;
    }
    void write(File& file, const std::vector<Segment>& segments) override {
        each(segments, [&](std::uint64_t, const Segment& block) {
            if (space_.is_being_packed(block.memory)) {
                space_.launcher().wait();
                space_.wait_for_pack();
            }
            put(block, file);
        });
        space_.pack_is_over();
    }
    void read(File& file, const std::vector<Segment>& segments) override {
        each(segments, [&](std::uint64_t, const Segment& block) { take(block, file); });
    }

    // cuFile has no stream that a copy of the ids and a kernel could share, and a launch costs up to
    // a tenth of a small copy: another thread launches.
    void write_packed(MemorySpace&, File& file, const Packing& packing,
                      const std::vector<Segment>& segments) override {
        space_.will_pack(packing.packed, packing.particles);
        const Settled settled{space_.launcher()};
        space_.launcher().start(
            [this, &packing] { space_.launch_pack(packing.arrays, packing.packed, packing.particles); });
        write(file, ids_first(segments));
    }
    void read_packed(MemorySpace&, File& file, const Packing& packing,
                     const std::vector<Segment>& segments) override {
        const std::vector<Segment> others(segments.begin(), segments.begin() + id);
        const std::uint64_t packed = Blocks(others, config_.block_bytes).count();
        std::atomic<std::uint64_t> left(packed);
        const Settled settled{space_.launcher()};
        // They precede the ids, and the thread that reads the last of them starts the unpacking.
        each(segments, [&](std::uint64_t i, const Segment& block) {
            take(block, file);
            if (i < packed && --left == 0) {
                space_.launcher().start(
                    [this, &packing] { space_.unpack(packing.packed, packing.arrays, packing.particles); });
            }
        });
        space_.launcher().wait();
    }

    std::string begin_write(File&, const Segment& segment, void* event) override {
        if (!stream_) stream_.reset(new Stream);
        TENKEN_CUDA(cudaStreamWaitEvent(stream_->get(), static_cast<cudaEvent_t>(event), 0));
        char* const base = space_.base_of(segment.memory);
        asked_ = segment.bytes;
        begun_ = CuFile::AsyncWrite();
        begun_.bytes = segment.bytes;
        begun_.offset = static_cast<off_t>(segment.offset);
        begun_.at = segment.memory - base;
        return space_.cufile().write_async(handle_, base, begun_, stream_->get());
    }
    void end_write(File& file) override {
        stream_->synchronize();
        if (begun_.written == static_cast<ssize_t>(asked_)) return;
        throw FileError("cuFile wrote " + std::to_string(begun_.written) + " of " + std::to_string(asked_) +
                        " bytes of " + file.path() + " within a stream" + of_rank());
    }

  private:
    void put(const Segment& block, const File& file) const {
        char* const base = space_.base_of(block.memory);
        space_.cufile().write(handle_, base, block.bytes, block.offset,
                              static_cast<std::uint64_t>(block.memory - base), file);
    }
    void take(const Segment& block, const File& file) const {
        char* const base = space_.base_of(block.memory);
        space_.cufile().read(handle_, base, block.bytes, block.offset,
                             static_cast<std::uint64_t>(block.memory - base), file);
    }

    /// Calls move(i, block) for each block in the candidate's threads.
    template <typename Move>
    void each(const std::vector<Segment>& segments, const Move& move) {
        const Blocks blocks(segments, config_.block_bytes);
        std::atomic<std::uint64_t> next(0);
        space_.workers().run(GpuMemorySpace::threads_for(config_, blocks.count()), [&](int) {
            for (std::uint64_t i = next++; i < blocks.count(); i = next++) move(i, blocks.at(i));
        });
    }

    IoConfig config_;
    GpuMemorySpace& space_;
    bool buffered_;
    void* handle_ = nullptr;
    std::unique_ptr<Stream> stream_;
    CuFile::AsyncWrite begun_;
    std::uint64_t asked_ = 0;
};

}  // namespace

std::unique_ptr<IoBackend> make_cufile_io_backend(const IoConfig& config, GpuMemorySpace& space) {
    return std::unique_ptr<IoBackend>(new CuFileIoBackend(config, space));
}

}  // namespace file_io
