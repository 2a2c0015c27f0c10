// GPU memory as one side of a transfer: filled, compared and packed by kernels; its copy rates.
#include <atomic>
#include <mutex>

#include "lib/base/clock.h"
#include "lib/base/text_file.h"
#include "lib/file_io/cuda/gpu_memory_space.h"
#include "lib/file_io/kvikio.h"

namespace file_io {

namespace {

using tenken::cuda::PinnedArray;

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

/// Number of particles that a block packs through shared memory, so that both sides access whole lines.
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

}  // namespace

std::vector<std::string> GpuMemorySpace::methods() const {
    std::vector<std::string> list = {"posix", "direct", "mapped"};
    if (cufile_) {
        // The name states the path: only a direct path is called gds.
        list.push_back(native_ ? "gds" : "cufile_compat");
        if (!native_) list.push_back("cufile_compat_buffered");
    }
    if (Kvikio::here().library) list.push_back("kvikio");
    return list;
}

Memory GpuMemorySpace::allocate(std::uint64_t bytes) {
    gpu_.use();
    const std::shared_ptr<tenken::cuda::DeviceArray<char>> array(
        new tenken::cuda::DeviceArray<char>((bytes + 4095) / 4096 * 4096));
    char* const base = array->data();
    const bool registered = native_ && cufile_->add_buffer(base, array->bytes());
    const std::shared_ptr<const CuFile> cufile = cufile_;
    (*allocations_)[base] = array->bytes();
    const std::shared_ptr<Allocations> allocations = allocations_;
    return Memory(base, [allocations, array, registered, cufile](char* data) {
        if (registered) cufile->remove_buffer(data);
        allocations->erase(data);
    });
}

void GpuMemorySpace::fill(char* memory, std::uint64_t words, const Words& values) {
    fill_kernel<<<blocks_for(words), threads_of_block, 0, stream_.get()>>>(
        reinterpret_cast<std::uint32_t*>(memory), words, values);
    TENKEN_CUDA(cudaGetLastError());
    stream_.synchronize();
}

Mismatch GpuMemorySpace::compare(const char* memory, std::uint64_t words, const Words& values) {
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

void GpuMemorySpace::launch_pack(const Quartet& arrays, const Quartet& packed, std::uint64_t particles) {
    pack_kernel<<<tiles_for(particles), particles_of_block, 0, stream_.get()>>>(
        reinterpret_cast<const float4*>(arrays.at[position_mass]),
        reinterpret_cast<const float2*>(arrays.at[velocity_xy]),
        reinterpret_cast<const float*>(arrays.at[velocity_z]), reinterpret_cast<float*>(packed.at[0]),
        reinterpret_cast<float*>(packed.at[1]), reinterpret_cast<float*>(packed.at[2]), particles);
    TENKEN_CUDA(cudaGetLastError());
}

void GpuMemorySpace::unpack(const Quartet& packed, const Quartet& arrays, std::uint64_t particles) {
    join();
    unpack_kernel<<<tiles_for(particles), particles_of_block, 0, stream_.get()>>>(
        reinterpret_cast<const float*>(packed.at[0]), reinterpret_cast<const float*>(packed.at[1]),
        reinterpret_cast<const float*>(packed.at[2]), reinterpret_cast<float4*>(arrays.at[position_mass]),
        reinterpret_cast<float2*>(arrays.at[velocity_xy]), reinterpret_cast<float*>(arrays.at[velocity_z]),
        particles);
    TENKEN_CUDA(cudaGetLastError());
}

std::vector<double> GpuMemorySpace::link_seconds(bool to_memory) {
    const std::size_t bytes = link_bytes;
    PinnedArray<char> host(bytes);
    tenken::cuda::DeviceArray<char> device(bytes);
    std::fill(host.data(), host.data() + bytes, 1);
    const auto copy = [&](const Stream& stream) {
        TENKEN_CUDA(cudaMemcpyAsync(to_memory ? device.data() : host.data(),
                                    to_memory ? host.data() : device.data(), bytes, cudaMemcpyDefault,
                                    stream.get()));
    };
    tenken::cuda::warm_up(0.05, stream_, copy);
    begin_timed();
    const std::vector<double> seconds = tenken::cuda::time_each(20, stream_, copy).device;
    end_timed();
    return seconds;
}

double GpuMemorySpace::cached_rate(File& file, std::uint64_t bytes, const IoConfig& config) {
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

const std::vector<int>& GpuMemorySpace::near_cpus() {
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    if (near_known_) return near_;
    near_known_ = true;
    near_ = tenken::process_cpus();
    const tenken::Optional<int>& node = gpu_.description().numa_node;
    if (!node) return near_;
    const auto list = tenken::read_text("/sys/devices/system/node/node" + std::to_string(*node) + "/cpulist");
    const std::vector<int> there = tenken::parse_cpu_list(list.value_or(""));
    std::vector<int> both;
    for (int cpu : near_) {
        if (std::find(there.begin(), there.end(), cpu) != there.end()) both.push_back(cpu);
    }
    // One per thread, otherwise threads would wait for each other.
    if (both.size() >= static_cast<std::size_t>(workers_.maximum())) near_ = both;
    return near_;
}

void GpuMemorySpace::join() {
    for (const std::unique_ptr<Lane>& lane : lanes_) {
        if (!lane->active) continue;
        lane->active = false;
        TENKEN_CUDA(cudaStreamWaitEvent(stream_.get(), lane->done.get(), 0));
    }
}

std::unique_ptr<IoBackend> GpuMemorySpace::io_backend(const IoConfig& config) {
    gpu_.use();
    if (config.method == "posix" || config.method == "direct" || config.method == "mapped") {
        return make_pinned_io_backend(config, *this);
    }
    if (config.method == "kvikio") {
        return make_kvikio_backend(
            config, [this](const char* memory) { return is_being_packed(memory); },
            [this] {
                wait_for_pack();
                pack_is_over();
            });
    }
    return make_cufile_io_backend(config, *this);
}

}  // namespace file_io
