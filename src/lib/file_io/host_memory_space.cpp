// Host memory as one side of a transfer: blocks move directly between the file and their destination.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "lib/base/host_array.h"
#include "lib/file_io/gds_probe.h"
#include "lib/file_io/kvikio.h"
#include "lib/file_io/memory_space.h"
#include "lib/file_io/workers.h"

namespace file_io {

Access access_of(const std::string& method, std::uint64_t offset) {
    if (method == "mapped") return Access::mapped;
    // A dataset that another program wrote at an odd offset cannot bypass the page cache.
    return method == "direct" && offset % File::direct_alignment == 0 ? Access::direct : Access::buffered;
}

namespace {

class HostIoBackend : public IoBackend {
  public:
    HostIoBackend(const IoConfig& config, Workers& workers) : config_(config), workers_(workers) {}

    bool needs_direct() const override { return config_.method == "direct"; }

    void write(File& file, const std::vector<Segment>& segments) override {
        each(file, segments, true, [&](const Segment& block) {
            file.write(access_of(config_.method, block.offset), block.offset, block.bytes, block.memory);
        });
    }
    void read(File& file, const std::vector<Segment>& segments) override {
        each(file, segments, false, [&](const Segment& block) {
            file.read(access_of(config_.method, block.offset), block.offset, block.bytes, block.memory);
        });
    }

  private:
    template <typename Move>
    void each(File& file, const std::vector<Segment>& segments, bool to_write, const Move& move) {
        const MappedPart mapped(file, segments, to_write, config_.method == "mapped");
        const Blocks blocks(segments, config_.block_bytes);
        std::atomic<std::uint64_t> next(0);
        const std::uint64_t count = blocks.count();
        const int threads = static_cast<int>(std::min<std::uint64_t>(count, config_.threads));
        workers_.run(threads, [&](int) {
            for (std::uint64_t i = next++; i < count; i = next++) move(blocks.at(i));
        });
    }

    IoConfig config_;
    Workers& workers_;
};

class HostMemorySpace : public MemorySpace {
  public:
    explicit HostMemorySpace(int threads) : workers_(threads, [] {}) {}

    tenken::Subject subject() const override { return tenken::Subject::host(); }
    std::vector<std::string> methods() const override {
        std::vector<std::string> list = {"posix", "direct", "mapped"};
        if (Kvikio::here().library) list.push_back("kvikio");
        return list;
    }
    std::unique_ptr<IoBackend> io_backend(const IoConfig& config) override {
        if (config.method == "kvikio") {
            return make_kvikio_backend(config, [](const char*) { return false; }, [] {});
        }
        return std::unique_ptr<IoBackend>(new HostIoBackend(config, workers_));
    }

    Memory allocate(std::uint64_t bytes) override {
        void* memory = nullptr;
        const std::size_t huge = std::size_t{2} << 20;
        const std::size_t size = (static_cast<std::size_t>(bytes) + 4095) / 4096 * 4096;
        if (posix_memalign(&memory, size >= huge ? huge : 4096, size) != 0) throw std::bad_alloc();
        madvise(memory, size, MADV_HUGEPAGE);
        return Memory(static_cast<char*>(memory), [](char* data) { std::free(data); });
    }

    void fill(char* memory, std::uint64_t words, const Words& values) override {
        std::uint32_t* const to = reinterpret_cast<std::uint32_t*>(memory);
#pragma omp parallel for schedule(static)
        for (std::uint64_t i = 0; i < words; ++i) to[i] = values(i);
    }
    Mismatch compare(const char* memory, std::uint64_t words, const Words& values) override {
        return compare_on_host(reinterpret_cast<const std::uint32_t*>(memory), words, values);
    }
    void clear(char* memory, std::uint64_t bytes) override { std::memset(memory, 0, bytes); }
    Memory staging(std::uint64_t bytes) override { return allocate(bytes); }
    void to_host(char* host, const char* memory, std::uint64_t bytes) override {
        std::memcpy(host, memory, bytes);
    }
    void from_host(char* memory, const char* host, std::uint64_t bytes) override {
        std::memcpy(memory, host, bytes);
    }
    bool is_host() const override { return true; }

    // By the workers: OpenMP's threads would compete with them, since they spin for a while.
    void pack(const Quartet& arrays, const Quartet& packed, std::uint64_t particles) override {
        const Pointers to(packed);
        const Pointers from(arrays);
        in_parts(particles, [&](std::uint64_t i) {
            for (int c = 0; c < 3; ++c) to.at[0][3 * i + c] = from.at[position_mass][4 * i + c];
            to.at[1][3 * i] = from.at[velocity_xy][2 * i];
            to.at[1][3 * i + 1] = from.at[velocity_xy][2 * i + 1];
            to.at[1][3 * i + 2] = from.at[velocity_z][i];
            to.at[2][i] = from.at[position_mass][4 * i + 3];
        });
    }
    void unpack(const Quartet& packed, const Quartet& arrays, std::uint64_t particles) override {
        const Pointers from(packed);
        const Pointers to(arrays);
        in_parts(particles, [&](std::uint64_t i) {
            for (int c = 0; c < 3; ++c) to.at[position_mass][4 * i + c] = from.at[0][3 * i + c];
            to.at[velocity_xy][2 * i] = from.at[1][3 * i];
            to.at[velocity_xy][2 * i + 1] = from.at[1][3 * i + 1];
            to.at[velocity_z][i] = from.at[1][3 * i + 2];
            to.at[position_mass][4 * i + 3] = from.at[2][i];
        });
    }
    void enter_thread() override {}
    std::unique_ptr<MemorySpace> for_this_thread() override {
        return std::unique_ptr<MemorySpace>(new HostMemorySpace(1));
    }
    void wait() override {}
    void begin_timed() override {}
    void end_timed() override {}
    std::vector<double> link_seconds(bool) override { return {}; }
    double cached_rate(File&, std::uint64_t, const IoConfig&) override { return 0; }

  private:
    template <typename Item>
    void in_parts(std::uint64_t items, const Item& item) {
        const int parts = static_cast<int>(
            std::min<std::uint64_t>(static_cast<std::uint64_t>(workers_.maximum()), items / 65536 + 1));
        workers_.run(parts, [&](int t) {
            const std::uint64_t begin =
                items * static_cast<std::uint64_t>(t) / static_cast<std::uint64_t>(parts);
            const std::uint64_t end =
                items * static_cast<std::uint64_t>(t + 1) / static_cast<std::uint64_t>(parts);
            for (std::uint64_t i = begin; i < end; ++i) item(i);
        });
    }

    struct Pointers {
        explicit Pointers(const Quartet& quartet) {
            for (int i = 0; i < 4; ++i) at[i] = reinterpret_cast<std::uint32_t*>(quartet.at[i]);
        }
        std::uint32_t* at[4];
    };

    Workers workers_;
};

}  // namespace

MappedPart::MappedPart(File& file, const std::vector<Segment>& segments, bool to_write, bool wanted)
    : file_(wanted ? &file : nullptr) {
    std::uint64_t end = 0;
    for (const Segment& segment : segments) end = std::max(end, segment.offset + segment.bytes);
    if (wanted) file.map(end, to_write);
}

MappedPart::~MappedPart() {
    if (file_ != nullptr) file_->unmap();
}

std::unique_ptr<MemorySpace> make_host_memory_space(int threads) {
    return std::unique_ptr<MemorySpace>(new HostMemorySpace(threads));
}

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<GpuMemorySpaces> make_gpu_memory_spaces() {
    return nullptr;
}

bool is_gds_probe(int, char**, int&) {
    return false;
}
#endif

}  // namespace file_io
