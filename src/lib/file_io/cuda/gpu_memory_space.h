// GPU memory: common part of the back ends that transfer its blocks.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/placement.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "lib/file_io/cuda/cufile.h"
#include "lib/file_io/cuda/staging.h"
#include "lib/file_io/memory_space.h"
#include "lib/file_io/ready_thread.h"
#include "lib/file_io/workers.h"

namespace file_io {

using tenken::cuda::Stream;

constexpr int max_slots = 4;
/// Streams shared by all threads. The copies of one stream follow each other without a gap. With one stream
/// per thread the copy engine switches between them after every block, which costs some 6 us each.
constexpr int max_streams = 1;

/// An event for completion only: cheaper than one with a time stamp.
class Mark {
  public:
    Mark() { TENKEN_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
    ~Mark() { cudaEventDestroy(event_); }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    void record(const Stream& stream) { TENKEN_CUDA(cudaEventRecord(event_, stream.get())); }
    /// Waits for completion; returns immediately if nothing was recorded.
    void wait() const { TENKEN_CUDA(cudaEventSynchronize(event_)); }
    cudaEvent_t get() const { return event_; }

  private:
    cudaEvent_t event_ = nullptr;
};

/// Private to one thread: a ring of page-locked buffers; and the stream that it shares.
class Lane {
  public:
    explicit Lane(const Stream& shared) : stream(shared) {}
    /// Creates slots of this many bytes: four, or two if they are large.
    void reserve(std::size_t slot_bytes) {
        const int slots = slots_for(slot_bytes);
        if (!ring_ || ring_->size() < slot_bytes * static_cast<std::size_t>(slots)) {
            ring_.reset();
            ring_.reset(new Staging(slot_bytes * static_cast<std::size_t>(slots)));
        }
    }
    static int slots_for(std::size_t slot_bytes) {
        return slot_bytes > (std::size_t{4} << 20) ? 2 : max_slots;
    }
    char* slot(int index, std::size_t slot_bytes) {
        return ring_->data() + static_cast<std::size_t>(index) * slot_bytes;
    }

    const Stream& stream;
    Mark free[max_slots];  ///< the copy that used a slot is complete
    Mark done;
    bool active = false;  ///< whether it enqueued work since the last join

  private:
    std::unique_ptr<Staging> ring_;
};

class GpuMemorySpace : public MemorySpace {
  public:
    /// Sizes by start address.
    typedef std::map<char*, std::uint64_t> Allocations;
    /// @param allocations those of another side, whose memory this one also moves
    GpuMemorySpace(tenken::cuda::Gpu& gpu, int threads, std::shared_ptr<const CuFile> cufile, bool native,
                   std::shared_ptr<Allocations> allocations = std::make_shared<Allocations>())
        : gpu_(gpu),
          cufile_(std::move(cufile)),
          native_(native),
          allocations_(std::move(allocations)),
          workers_(threads, begin_thread()),
          launcher_(begin_thread()) {
        for (int i = 0; i < std::min(threads, max_streams); ++i) streams_.emplace_back(new Stream);
        for (int i = 0; i < threads; ++i) {
            lanes_.emplace_back(new Lane(*streams_[static_cast<std::size_t>(i) % streams_.size()]));
        }
    }
    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu_.index()); }
    std::vector<std::string> methods() const override;
    std::unique_ptr<IoBackend> io_backend(const IoConfig& config) override;
    Memory allocate(std::uint64_t bytes) override;
    void fill(char* memory, std::uint64_t words, const Words& values) override;
    Mismatch compare(const char* memory, std::uint64_t words, const Words& values) override;
    void clear(char* memory, std::uint64_t bytes) override {
        TENKEN_CUDA(cudaMemsetAsync(memory, 0, bytes, stream_.get()));
        stream_.synchronize();
    }
    Memory staging(std::uint64_t bytes) override {
        const std::shared_ptr<Staging> staged(new Staging(bytes));
        return Memory(staged, staged->data());
    }
    void to_host(char* host, const char* memory, std::uint64_t bytes) override {
        TENKEN_CUDA(cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, stream_.get()));
    }
    void from_host(char* memory, const char* host, std::uint64_t bytes) override {
        TENKEN_CUDA(cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, stream_.get()));
    }
    bool is_host() const override { return false; }
    void pack(const Quartet& arrays, const Quartet& packed, std::uint64_t particles) override {
        will_pack(packed, particles);
        launch_pack(arrays, packed, particles);
    }
    /// Only the kernel. Callable from any thread.
    void launch_pack(const Quartet& arrays, const Quartet& packed, std::uint64_t particles);
    /// Sets the state that is_being_packed() reports. Called by the main thread, before others query it.
    void will_pack(const Quartet& packed, std::uint64_t particles) {
        packed_ = packed;
        packed_particles_ = particles;
    }
    void unpack(const Quartet& packed, const Quartet& arrays, std::uint64_t particles) override;
    void enter_thread() override { gpu_.use(); }
    std::unique_ptr<MemorySpace> for_this_thread() override {
        tenken::bind_this_thread(near_cpus());
        return std::unique_ptr<MemorySpace>(new GpuMemorySpace(gpu_, 1, cufile_, native_, allocations_));
    }
    void wait() override {
        join();
        stream_.synchronize();
        pack_is_over();
    }
    void begin_timed() override { gpu_.health().start(); }
    void end_timed() override { gpu_.health().stop(); }
    std::vector<double> link_seconds(bool to_memory) override;
    double cached_rate(File& file, std::uint64_t bytes, const IoConfig& config) override;
    // Used by the back ends.
    Workers& workers() { return workers_; }
    const CuFile& cufile() const { return *cufile_; }
    Lane& lane(int index) { return *lanes_[static_cast<std::size_t>(index)]; }
    void prepare_lanes(const IoConfig& config) {
        workers_.run(config.threads, [&](int t) { lane(t).reserve(config.block_bytes); });
    }
    static int threads_for(const IoConfig& config, std::uint64_t blocks) {
        return static_cast<int>(std::min<std::uint64_t>(blocks, static_cast<std::uint64_t>(config.threads)));
    }
    /// Launches kernels for a back end whose threads are busy.
    ReadyThread& launcher() { return launcher_; }
    /// Whether a CPU is left for that thread in addition to this many others.
    static bool has_cpu_beside(int threads) {
        return tenken::process_cpus().size() > static_cast<std::size_t>(threads);
    }
    /// Whether the content of this memory is being packed, or about to be.
    bool is_being_packed(const char* memory) const {
        for (int d = 0; d < id; ++d) {
            const std::uint64_t bytes = packed_particles_ * datasets_of(Layout::hyperslab)[d].words() * 4;
            if (memory >= packed_.at[d] && memory < packed_.at[d] + bytes) return true;
        }
        return false;
    }
    /// To be called by the main thread before any lane follows.
    void mark_pack() {
        if (packed_particles_ > 0) ready_.record(stream_);
    }
    /// A lane's stream continues after the work enqueued by pack().
    void follow_pack(Lane& lane) { TENKEN_CUDA(cudaStreamWaitEvent(lane.stream.get(), ready_.get(), 0)); }
    /// For transfers without streams: waits for the packing. Callable from any thread.
    void wait_for_pack() { stream_.synchronize(); }
    void pack_is_over() { packed_particles_ = 0; }
    /// The allocation that contains an address. @throws std::logic_error
    char* base_of(char* address) const {
        auto after = allocations_->upper_bound(address);
        if (after == allocations_->begin()) throw std::logic_error("base_of: not of this GPU");
        return (--after)->first;
    }

  private:
    std::function<void()> begin_thread() {
        return [this] {
            gpu_.use();
            tenken::bind_this_thread(near_cpus());
        };
    }
    /// The CPUs near the GPU, among those that the process may use.
    const std::vector<int>& near_cpus();
    /// The main stream continues after the work enqueued by the lanes.
    void join();

    tenken::cuda::Gpu& gpu_;
    std::shared_ptr<const CuFile> cufile_;
    bool native_;
    std::shared_ptr<Allocations> allocations_;
    bool near_known_ = false;
    std::vector<int> near_;
    Stream stream_;
    Mark ready_;
    Quartet packed_ = {};                 ///< destination of pack()
    std::uint64_t packed_particles_ = 0;  ///< particles being packed, until that is complete
    Workers workers_;
    ReadyThread launcher_;
    std::vector<std::unique_ptr<Stream>> streams_;
    std::vector<std::unique_ptr<Lane>> lanes_;
};

/// Through page-locked memory: posix, direct, mapped.
std::unique_ptr<IoBackend> make_pinned_io_backend(const IoConfig& config, GpuMemorySpace& space);
/// By cuFile, by whichever path it uses.
std::unique_ptr<IoBackend> make_cufile_io_backend(const IoConfig& config, GpuMemorySpace& space);

}  // namespace file_io
