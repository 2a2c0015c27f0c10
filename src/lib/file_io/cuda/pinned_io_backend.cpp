// Transfer of blocks through page-locked host memory, read or written by threads while the copy engine moves
// the previous ones.
#include <atomic>

#include "lib/file_io/cuda/gpu_memory_space.h"

namespace file_io {

namespace {

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
        // The kernel packs into the slots, so only the ids remain to be copied, and they do not delay it.
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
        // The kernel unpacks from the slots, so only the ids remain to be copied.
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
    /// Whether one thread has a slot for each complete dataset.
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

}  // namespace

std::unique_ptr<IoBackend> make_pinned_io_backend(const IoConfig& config, GpuMemorySpace& space) {
    return std::unique_ptr<IoBackend>(new PinnedIoBackend(config, space));
}

}  // namespace file_io
