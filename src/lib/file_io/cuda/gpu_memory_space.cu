// A GPU's memory as a side: blocks go through page-locked memory of the host, read or written by threads
// while the copy engine moves those before them, or by cuFile.
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#include "lib/base/copy_gpu.h"
#include "lib/base/link_limit.h"
#include "lib/base/placement.h"
#include "lib/base/text_file.h"
#include "lib/cuda/devices.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/timing.h"
#include "lib/file_io/cuda/cufile.h"
#include "lib/file_io/cuda/staging.h"
#include "lib/file_io/gds_probe.h"
#include "lib/file_io/kvikio.h"
#include "lib/file_io/memory_space.h"
#include "lib/file_io/ready_thread.h"
#include "lib/file_io/scratch.h"
#include "lib/file_io/workers.h"

namespace file_io {

namespace {

using tenken::cuda::PinnedArray;
using tenken::cuda::Stream;

constexpr int max_slots = 4;
/// Streams that all threads share. The copies of one stream follow each other without a pause; with a stream
/// for each thread the copy engine goes from one to the next after every block, which costs some 6 us each.
constexpr int max_streams = 1;
constexpr unsigned threads_of_block = 256;

unsigned blocks_for(std::uint64_t items) {
    return static_cast<unsigned>(std::max<std::uint64_t>(
        1, std::min<std::uint64_t>((items + threads_of_block - 1) / threads_of_block, 1u << 20)));
}

__global__ void fill_kernel(std::uint32_t* to, std::uint64_t words, Words values) {
    const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
    for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(blockDim.x) + threadIdx.x; i < words;
         i += step)
        to[i] = values(i);
}

struct Found {
    unsigned long long count;
    unsigned long long first;
};

__global__ void compare_kernel(const std::uint32_t* at, std::uint64_t words, Words values, Found* found) {
    const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
    for (std::uint64_t i = blockIdx.x * static_cast<std::uint64_t>(blockDim.x) + threadIdx.x; i < words;
         i += step) {
        if (at[i] == values(i)) continue;
        atomicAdd(&found->count, 1ULL);
        atomicMin(&found->first, static_cast<unsigned long long>(i));
    }
}

/// A block packs so many particles by way of shared memory, so that both sides are whole lines.
constexpr unsigned particles_of_block = 256;

/// float4 and float2, float to N x 3, N x 3, N.
__global__ void __launch_bounds__(particles_of_block)
    pack_kernel(const float4* position_mass, const float2* velocity_xy, const float* velocity_z,
                float* position, float* velocity, float* mass, std::uint64_t particles) {
    __shared__ float staged[2][3 * particles_of_block];
    const std::uint64_t tiles = (particles + particles_of_block - 1) / particles_of_block;
    const unsigned t = threadIdx.x;
    for (std::uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const std::uint64_t first = tile * particles_of_block;
        const std::uint64_t i = first + t;
        if (i < particles) {
            const float4 p = __ldcs(position_mass + i);
            const float2 v = __ldcs(velocity_xy + i);
            staged[0][3 * t] = p.x;
            staged[0][3 * t + 1] = p.y;
            staged[0][3 * t + 2] = p.z;
            staged[1][3 * t] = v.x;
            staged[1][3 * t + 1] = v.y;
            staged[1][3 * t + 2] = __ldcs(velocity_z + i);
            __stcs(mass + i, p.w);
        }
        __syncthreads();
        const unsigned count = static_cast<unsigned>(
            3 * (particles - first < particles_of_block ? particles - first : particles_of_block));
        for (unsigned k = t; k < count; k += particles_of_block) {
            __stcs(position + 3 * first + k, staged[0][k]);
            __stcs(velocity + 3 * first + k, staged[1][k]);
        }
        __syncthreads();
    }
}

__global__ void __launch_bounds__(particles_of_block)
    unpack_kernel(const float* position, const float* velocity, const float* mass, float4* position_mass,
                  float2* velocity_xy, float* velocity_z, std::uint64_t particles) {
    __shared__ float staged[2][3 * particles_of_block];
    const std::uint64_t tiles = (particles + particles_of_block - 1) / particles_of_block;
    const unsigned t = threadIdx.x;
    for (std::uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const std::uint64_t first = tile * particles_of_block;
        const unsigned count = static_cast<unsigned>(
            3 * (particles - first < particles_of_block ? particles - first : particles_of_block));
        for (unsigned k = t; k < count; k += particles_of_block) {
            staged[0][k] = __ldcs(position + 3 * first + k);
            staged[1][k] = __ldcs(velocity + 3 * first + k);
        }
        __syncthreads();
        const std::uint64_t i = first + t;
        if (i < particles) {
            const float4 p =
                make_float4(staged[0][3 * t], staged[0][3 * t + 1], staged[0][3 * t + 2], __ldcs(mass + i));
            __stcs(position_mass + i, p);
            __stcs(velocity_xy + i, make_float2(staged[1][3 * t], staged[1][3 * t + 1]));
            __stcs(velocity_z + i, staged[1][3 * t + 2]);
        }
        __syncthreads();
    }
}

unsigned tiles_for(std::uint64_t particles) {
    return static_cast<unsigned>(std::max<std::uint64_t>(
        1, std::min<std::uint64_t>((particles + particles_of_block - 1) / particles_of_block, 8192)));
}

/// An event that only says that it is over: cheaper than one that keeps the time.
class Mark {
  public:
    Mark() { TENKEN_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
    ~Mark() { cudaEventDestroy(event_); }
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;
    void record(const Stream& stream) { TENKEN_CUDA(cudaEventRecord(event_, stream.get())); }
    /// Until it is over; at once where nothing was recorded.
    void wait() const { TENKEN_CUDA(cudaEventSynchronize(event_)); }
    cudaEvent_t get() const { return event_; }

  private:
    cudaEvent_t event_ = nullptr;
};

/// What one thread has for itself: a ring of page-locked buffers; and the stream that it shares.
class Lane {
  public:
    explicit Lane(const Stream& shared) : stream(shared) {}
    /// Makes slots of so many bytes: four, or two of large ones.
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
    Mark free[max_slots];  ///< the copy that used a slot is over
    Mark done;
    bool active = false;  ///< has enqueued something since the last join

  private:
    std::unique_ptr<Staging> ring_;
};

class GpuMemorySpace : public MemorySpace {
  public:
    GpuMemorySpace(tenken::cuda::Gpu& gpu, int threads, std::shared_ptr<const CuFile> cufile, bool native)
        : gpu_(gpu),
          cufile_(std::move(cufile)),
          native_(native),
          workers_(threads, begin_thread()),
          launcher_(begin_thread()) {
        for (int i = 0; i < std::min(threads, max_streams); ++i) streams_.emplace_back(new Stream);
        for (int i = 0; i < threads; ++i) {
            lanes_.emplace_back(new Lane(*streams_[static_cast<std::size_t>(i) % streams_.size()]));
        }
    }

    tenken::Subject subject() const override { return tenken::Subject::gpu(gpu_.index()); }
    std::vector<std::string> methods() const override {
        std::vector<std::string> list = {"posix", "direct", "mapped"};
        if (cufile_) {
            // The name says how the bytes go: what is called gds is nothing else.
            list.push_back(native_ ? "gds" : "cufile_compat");
            if (!native_) list.push_back("cufile_compat_buffered");
        }
        if (Kvikio::here().library) list.push_back("kvikio");
        return list;
    }
    std::unique_ptr<IoBackend> io_backend(const IoConfig& config) override;

    Memory allocate(std::uint64_t bytes) override {
        gpu_.use();
        const std::shared_ptr<tenken::cuda::DeviceArray<char>> array(
            new tenken::cuda::DeviceArray<char>((bytes + 4095) / 4096 * 4096));
        char* const base = array->data();
        const bool registered = native_ && cufile_->add_buffer(base, array->bytes());
        const std::shared_ptr<const CuFile> cufile = cufile_;
        allocations_[base] = array->bytes();
        return Memory(base, [this, array, registered, cufile](char* data) {
            if (registered) cufile->remove_buffer(data);
            allocations_.erase(data);
        });
    }

    void fill(char* memory, std::uint64_t words, const Words& values) override {
        fill_kernel<<<blocks_for(words), threads_of_block, 0, stream_.get()>>>(
            reinterpret_cast<std::uint32_t*>(memory), words, values);
        TENKEN_CUDA(cudaGetLastError());
        stream_.synchronize();
    }

    Mismatch compare(const char* memory, std::uint64_t words, const Words& values) override {
        const std::uint32_t* const at = reinterpret_cast<const std::uint32_t*>(memory);
        tenken::cuda::DeviceArray<Found> found(1);
        Found result = {0, ~0ULL};
        TENKEN_CUDA(cudaMemcpy(found.data(), &result, sizeof result, cudaMemcpyHostToDevice));
        compare_kernel<<<blocks_for(words), threads_of_block, 0, stream_.get()>>>(at, words, values,
                                                                                  found.data());
        TENKEN_CUDA(cudaGetLastError());
        stream_.synchronize();
        TENKEN_CUDA(cudaMemcpy(&result, found.data(), sizeof result, cudaMemcpyDeviceToHost));
        Mismatch mismatch;
        mismatch.count = result.count;
        if (result.count == 0) return mismatch;
        mismatch.first = result.first;
        TENKEN_CUDA(
            cudaMemcpy(&mismatch.found, at + mismatch.first, sizeof mismatch.found, cudaMemcpyDeviceToHost));
        mismatch.expected = values(mismatch.first);
        return mismatch;
    }

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
    /// The kernel alone. Any thread may.
    void launch_pack(const Quartet& arrays, const Quartet& packed, std::uint64_t particles) {
        pack_kernel<<<tiles_for(particles), particles_of_block, 0, stream_.get()>>>(
            reinterpret_cast<const float4*>(arrays.at[position_mass]),
            reinterpret_cast<const float2*>(arrays.at[velocity_xy]),
            reinterpret_cast<const float*>(arrays.at[velocity_z]), reinterpret_cast<float*>(packed.at[0]),
            reinterpret_cast<float*>(packed.at[1]), reinterpret_cast<float*>(packed.at[2]), particles);
        TENKEN_CUDA(cudaGetLastError());
    }
    /// What is_being_packed() goes by. By the main thread, before others ask.
    void will_pack(const Quartet& packed, std::uint64_t particles) {
        packed_ = packed;
        packed_particles_ = particles;
    }
    void unpack(const Quartet& packed, const Quartet& arrays, std::uint64_t particles) override {
        join();
        unpack_kernel<<<tiles_for(particles), particles_of_block, 0, stream_.get()>>>(
            reinterpret_cast<const float*>(packed.at[0]), reinterpret_cast<const float*>(packed.at[1]),
            reinterpret_cast<const float*>(packed.at[2]), reinterpret_cast<float4*>(arrays.at[position_mass]),
            reinterpret_cast<float2*>(arrays.at[velocity_xy]),
            reinterpret_cast<float*>(arrays.at[velocity_z]), particles);
        TENKEN_CUDA(cudaGetLastError());
    }
    void enter_thread() override { gpu_.use(); }
    void wait() override {
        join();
        stream_.synchronize();
        pack_is_over();
    }
    void begin_timed() override { gpu_.health().start(); }
    void end_timed() override { gpu_.health().stop(); }
    tenken::Limit link_limit() const override { return tenken::host_link_limit(gpu_.description()); }

    double link_rate(bool to_memory) override {
        const std::size_t bytes = std::size_t{256} << 20;
        PinnedArray<char> host(bytes);
        tenken::cuda::DeviceArray<char> device(bytes);
        std::fill(host.data(), host.data() + bytes, 1);
        const auto copy = [&](const Stream& stream) {
            TENKEN_CUDA(cudaMemcpyAsync(to_memory ? device.data() : host.data(),
                                        to_memory ? host.data() : device.data(), bytes, cudaMemcpyDefault,
                                        stream.get()));
        };
        tenken::cuda::warm_up(0.05, stream_, copy);
        const std::vector<double> seconds = tenken::cuda::time_each(20, stream_, copy).device;
        return static_cast<double>(bytes) /
               tenken::order_statistics(seconds, tenken::Direction::lower).median / 1e9;
    }

    double cached_rate(File& file, std::uint64_t bytes, const IoConfig& config) override {
        prepare_lanes(config);
        const std::vector<Segment> segments = {{0, bytes, nullptr}};
        const MappedPart mapped(file, segments, false, config.method == "mapped");
        const Blocks blocks(segments, config.block_bytes);
        const int slots = Lane::slots_for(config.block_bytes);
        std::atomic<std::uint64_t> next(0);
        const double begin = tenken::now_seconds();
        workers_.run(threads_for(config, blocks.count()), [&](int t) {
            Lane& lane = *lanes_[static_cast<std::size_t>(t)];
            int slot = 0;
            for (std::uint64_t i = next++; i < blocks.count(); i = next++, slot = (slot + 1) % slots) {
                const Segment block = blocks.at(i);
                file.read(access_of(config.method, block.offset), block.offset, block.bytes,
                          lane.slot(slot, config.block_bytes));
            }
        });
        return static_cast<double>(bytes) / (tenken::now_seconds() - begin) / 1e9;
    }

    // What movers need.
    Workers& workers() { return workers_; }
    const CuFile& cufile() const { return *cufile_; }
    Lane& lane(int index) { return *lanes_[static_cast<std::size_t>(index)]; }
    void prepare_lanes(const IoConfig& config) {
        workers_.run(config.threads, [&](int t) { lane(t).reserve(config.block_bytes); });
    }
    static int threads_for(const IoConfig& config, std::uint64_t blocks) {
        return static_cast<int>(std::min<std::uint64_t>(blocks, static_cast<std::uint64_t>(config.threads)));
    }
    /// Launches kernels for a mover whose threads have else to do.
    ReadyThread& launcher() { return launcher_; }
    /// Whether a CPU is left for that thread beside so many others.
    static bool has_cpu_beside(int threads) {
        return tenken::process_cpus().size() > static_cast<std::size_t>(threads);
    }
    /// Whether what this memory will hold is being packed, or about to be.
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
    /// A lane's stream goes on behind what pack() has enqueued.
    void follow_pack(Lane& lane) { TENKEN_CUDA(cudaStreamWaitEvent(lane.stream.get(), ready_.get(), 0)); }
    /// For what does not know streams: waits for the packing. Any thread may.
    void wait_for_pack() { stream_.synchronize(); }
    void pack_is_over() { packed_particles_ = 0; }
    /// The allocation that an address lies in. @throws std::logic_error
    char* base_of(char* address) const {
        auto after = allocations_.upper_bound(address);
        if (after == allocations_.begin()) throw std::logic_error("base_of: not of this GPU");
        return (--after)->first;
    }

  private:
    std::function<void()> begin_thread() {
        return [this] {
            gpu_.use();
            tenken::bind_this_thread(near_cpus());
        };
    }
    /// The CPUs beside the GPU, of those that the process may use.
    const std::vector<int>& near_cpus() {
        static std::mutex mutex;
        const std::lock_guard<std::mutex> lock(mutex);
        if (near_known_) return near_;
        near_known_ = true;
        near_ = tenken::process_cpus();
        const tenken::Optional<int>& node = gpu_.description().numa_node;
        if (!node) return near_;
        const auto list =
            tenken::read_text("/sys/devices/system/node/node" + std::to_string(*node) + "/cpulist");
        const std::vector<int> there = tenken::parse_cpu_list(list.value_or(""));
        std::vector<int> both;
        for (int cpu : near_) {
            if (std::find(there.begin(), there.end(), cpu) != there.end()) both.push_back(cpu);
        }
        // As many as there are threads, or they would wait for each other.
        if (both.size() >= static_cast<std::size_t>(workers_.maximum())) near_ = both;
        return near_;
    }

    /// The main stream goes on behind what the lanes have enqueued.
    void join() {
        for (const std::unique_ptr<Lane>& lane : lanes_) {
            if (!lane->active) continue;
            lane->active = false;
            TENKEN_CUDA(cudaStreamWaitEvent(stream_.get(), lane->done.get(), 0));
        }
    }

    tenken::cuda::Gpu& gpu_;
    std::shared_ptr<const CuFile> cufile_;
    bool native_;
    bool near_known_ = false;
    std::vector<int> near_;
    Stream stream_;
    Mark ready_;
    Quartet packed_ = {};                 ///< what pack() writes
    std::uint64_t packed_particles_ = 0;  ///< of that, until it is over
    std::map<char*, std::uint64_t> allocations_;
    Workers workers_;
    ReadyThread launcher_;
    std::vector<std::unique_ptr<Stream>> streams_;
    std::vector<std::unique_ptr<Lane>> lanes_;
};

/// Through page-locked memory.
class PinnedIoBackend : public IoBackend {
  public:
    PinnedIoBackend(const IoConfig& config, GpuMemorySpace& space) : config_(config), space_(space) {
        space_.prepare_lanes(config_);
    }
    bool needs_direct() const override { return config_.method == "direct"; }

    void write(File& file, const std::vector<Segment>& segments) override {
        const MappedPart mapped(file, segments, true, config_.method == "mapped");
        const Blocks blocks(segments, config_.block_bytes);
        const std::uint64_t count = blocks.count();
        const int slots = Lane::slots_for(config_.block_bytes);
        std::atomic<std::uint64_t> next(0);
        space_.mark_pack();
        space_.workers().run(GpuMemorySpace::threads_for(config_, count), [&](int t) {
            Lane& lane = space_.lane(t);
            bool follows = false;
            Segment waiting[max_slots];
            bool used[max_slots] = {};
            const auto begin = [&](int s) {
                const std::uint64_t i = next++;
                used[s] = i < count;
                if (!used[s]) return;
                waiting[s] = blocks.at(i);
                if (!follows && space_.is_being_packed(waiting[s].memory)) {
                    space_.follow_pack(lane);
                    follows = true;
                }
                TENKEN_CUDA(cudaMemcpyAsync(lane.slot(s, config_.block_bytes), waiting[s].memory,
                                            waiting[s].bytes, cudaMemcpyDeviceToHost, lane.stream.get()));
                lane.free[s].record(lane.stream);
            };
            for (int s = 0; s < slots; ++s) begin(s);
            for (int s = 0; used[s]; s = (s + 1) % slots) {
                lane.free[s].wait();
                file.write(access_of(config_.method, waiting[s].offset), waiting[s].offset, waiting[s].bytes,
                           lane.slot(s, config_.block_bytes));
                begin(s);
            }
        });
        space_.pack_is_over();
    }

    void read(File& file, const std::vector<Segment>& segments) override {
        const MappedPart mapped(file, segments, false, config_.method == "mapped");
        const Blocks blocks(segments, config_.block_bytes);
        const std::uint64_t count = blocks.count();
        const int slots = Lane::slots_for(config_.block_bytes);
        std::atomic<std::uint64_t> next(0);
        space_.workers().run(GpuMemorySpace::threads_for(config_, count), [&](int t) {
            Lane& lane = space_.lane(t);
            int s = 0;
            for (std::uint64_t i = next++; i < count; i = next++, s = (s + 1) % slots) {
                const Segment block = blocks.at(i);
                char* const slot = lane.slot(s, config_.block_bytes);
                lane.free[s].wait();
                file.read(access_of(config_.method, block.offset), block.offset, block.bytes, slot);
                TENKEN_CUDA(cudaMemcpyAsync(block.memory, slot, block.bytes, cudaMemcpyHostToDevice,
                                            lane.stream.get()));
                lane.free[s].record(lane.stream);
            }
            lane.done.record(lane.stream);
            lane.active = true;
        });
    }

    void write_packed(MemorySpace& space, File& file, const Packing& packing,
                      const std::vector<Segment>& segments) override {
        if (!has_slot_for_each(segments)) return IoBackend::write_packed(space, file, packing, segments);
        // The kernel packs into the slots: nothing is left to copy but the ids, which it does not delay.
        Lane& lane = space_.lane(0);
        const Segment& ids = segments[id];
        TENKEN_CUDA(
            cudaMemcpyAsync(slot(id), ids.memory, ids.bytes, cudaMemcpyDeviceToHost, lane.stream.get()));
        lane.free[id].record(lane.stream);
        space_.launch_pack(packing.arrays, slots(), packing.particles);
        lane.free[id].wait();
        const auto put = [&](int d) {
            file.write(access_of(config_.method, segments[d].offset), segments[d].offset, segments[d].bytes,
                       slot(d));
        };
        put(id);
        space_.wait_for_pack();
        for (int d = 0; d < id; ++d) put(d);
    }

    void read_packed(MemorySpace& space, File& file, const Packing& packing,
                     const std::vector<Segment>& segments) override {
        if (config_.threads > 1) return IoBackend::read_packed(space, file, packing, segments);
        // One thread reads the ids, which need no unpacking, while the others are unpacked.
        const Segment& ids = segments[id];
        if (!has_slot_for_each(segments)) {
            read(file, {segments.begin(), segments.begin() + id});
            space_.unpack(packing.packed, packing.arrays, packing.particles);
            return read(file, {ids});
        }
        // The kernel unpacks from the slots: nothing is left to copy but the ids.
        Lane& lane = space_.lane(0);
        const auto take = [&](int d) {
            lane.free[d].wait();
            file.read(access_of(config_.method, segments[d].offset), segments[d].offset, segments[d].bytes,
                      slot(d));
        };
        for (int d = 0; d < id; ++d) take(d);
        space_.unpack(slots(), packing.arrays, packing.particles);
        take(id);
        TENKEN_CUDA(
            cudaMemcpyAsync(ids.memory, slot(id), ids.bytes, cudaMemcpyHostToDevice, lane.stream.get()));
        lane.free[id].record(lane.stream);
        lane.done.record(lane.stream);
        lane.active = true;
    }

  private:
    /// Whether one thread has a slot for each dataset as a whole.
    bool has_slot_for_each(const std::vector<Segment>& segments) const {
        if (config_.threads > 1 || config_.method == "mapped") return false;
        if (Lane::slots_for(config_.block_bytes) < datasets) return false;
        for (const Segment& segment : segments) {
            if (segment.bytes > config_.block_bytes) return false;
        }
        return true;
    }
    char* slot(int d) { return space_.lane(0).slot(d, config_.block_bytes); }
    Quartet slots() {
        Quartet quartet;
        for (int d = 0; d < datasets; ++d) quartet.at[d] = slot(d);
        return quartet;
    }

    IoConfig config_;
    GpuMemorySpace& space_;
};

/// Nothing that a thread does outlives what it refers to, also when an error leaves the block.
struct Settled {
    const ReadyThread& thread;
    ~Settled() { thread.settle(); }
};

/// By cuFile, whichever way it goes.
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

    // cuFile knows no stream that a copy of the ids and a kernel could share, and launching costs as much as
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
        // They lie in front of the ids; whoever reads the last of them lets it be unpacked.
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

    /// Calls move(i, block) for each block by the candidate's threads.
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

std::unique_ptr<IoBackend> GpuMemorySpace::io_backend(const IoConfig& config) {
    gpu_.use();
    if (config.method == "posix" || config.method == "direct" || config.method == "mapped") {
        return std::unique_ptr<IoBackend>(new PinnedIoBackend(config, *this));
    }
    if (config.method == "kvikio") {
        return make_kvikio_backend(
            config, [this](const char* memory) { return is_being_packed(memory); },
            [this] {
                wait_for_pack();
                pack_is_over();
            });
    }
    return std::unique_ptr<IoBackend>(new CuFileIoBackend(config, *this));
}

class CudaMemorySpaces : public GpuMemorySpaces {
  public:
    void options(tenken::Arguments& arguments) override { gpus_.options(arguments, false); }
    void prepare(const tenken::Arguments& arguments) override { gpus_.prepare(arguments); }
    void require_fit(const tenken::Arguments& arguments, const std::string& option, std::uint64_t bytes,
                     const std::string& what) const override {
        for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus_.list()) {
            const std::uint64_t free = gpu->description().memory_free_bytes;
            if (bytes <= free / 10 * 9) continue;
            throw arguments.error(option, "what fits into memory: " + what + " need " +
                                              tenken::format_bytes(bytes) + " on gpu" +
                                              std::to_string(gpu->index()) + ", free " +
                                              tenken::format_bytes(free));
        }
    }

    void each(int threads, const std::string& folder,
              const std::function<void(MemorySpace&)>& work) override {
        gpus_.each([&](tenken::cuda::Gpu& gpu, tenken::DeviceWorker&) {
            const std::shared_ptr<const CuFile> cufile = open_cufile(folder, gpu.index());
            GpuMemorySpace space(gpu, threads, cufile, native_);
            work(space);
        });
    }

    void report(tenken::Document& document) override {
        gpus_.report(document);
        tenken::describe_pages(document);
        document.path("staging", Staging::describe());
        if (properties_.empty()) {
            document.path("cufile", "none: " + why_no_cufile_);
            document.path("cufile_probe", "with CUFILE_ALLOW_COMPAT_MODE=false: " + why_not_native_);
            return;
        }
        document.build.libraries.push_back({"cuFile", cufile_version_});
        document.path("cufile", native_ ? "GPUDirect Storage" : "compatibility mode, no GPUDirect Storage");
        document.path("cufile_properties", properties_);
        document.path("cufile_probe", native_ ? std::string("works with CUFILE_ALLOW_COMPAT_MODE=false")
                                              : "with CUFILE_ALLOW_COMPAT_MODE=false: " + why_not_native_);
        document.path("nvidia_fs",
                      tenken::read_text("/proc/driver/nvidia-fs/version").value_or("not loaded"));
    }

  private:
    /// Tries in processes apart what works: a cuFile that fails here may take the process with it.
    std::shared_ptr<const CuFile> open_cufile(const std::string& folder, int gpu) {
        const RunFolder probing(folder, "gds");
        const GdsProbe straight =
            probe_gds(probing.file("probe"), gpu, {{"CUFILE_ALLOW_COMPAT_MODE", "false"}});
        native_ = straight.works;
        why_not_native_ = straight.why_not;
        if (!native_) {
            const Settings settings = {{"CUFILE_ALLOW_COMPAT_MODE", "true"}};
            const GdsProbe bounced = probe_gds(probing.file("probe"), gpu, settings);
            if (!bounced.works) {
                why_no_cufile_ = bounced.why_not;
                // It asks udev for the device of a file, in any mode, and containers often have no udev.
                const std::string database = "/run/udev/data";
                if (access(database.c_str(), R_OK) != 0) {
                    why_no_cufile_ += "; cuFile asks udev for the device, and there is no " + database;
                }
                return nullptr;
            }
            for (const Setting& one : settings) setenv(one.first.c_str(), one.second.c_str(), 1);
        }
        const std::shared_ptr<const CuFile> cufile = CuFile::open(why_no_cufile_);
        if (cufile) {
            cufile_version_ = cufile->version();
            properties_ = cufile->properties();
        }
        return cufile;
    }

    tenken::cuda::Gpus gpus_;
    bool native_ = false;
    std::string why_no_cufile_;
    std::string why_not_native_;
    std::string cufile_version_;
    std::string properties_;
};

}  // namespace

std::unique_ptr<GpuMemorySpaces> make_gpu_memory_spaces() {
    return std::unique_ptr<GpuMemorySpaces>(new CudaMemorySpaces);
}

}  // namespace file_io
