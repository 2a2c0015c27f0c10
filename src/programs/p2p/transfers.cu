#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "catalogue/p2p.h"
#include "lib/cuda/copy.h"
#include "lib/cuda/verify.cuh"
#include "programs/p2p/transfers.h"

namespace p2p {

namespace {

using tenken::cuda::CurrentGpu;
using tenken::cuda::Stream;

/// The content of a source: exact, and different for adjacent elements, for patterns and for GPUs,
/// so that a copy from a wrong location or of an earlier pattern is detected.
struct Values {
    double base;
    std::size_t whole;  ///< doubles that the copy has in full
    __host__ __device__ double operator()(std::size_t i) const {
        if (i >= whole) return tenken::cut_off(base);
        return base + static_cast<double>(i % 1021) / 1024.0;
    }
};

Values values(int pattern, int gpu, std::size_t bytes) {
    return Values{static_cast<double>(pattern + 4 * gpu), bytes / sizeof(double)};
}

std::size_t elements_of(std::size_t bytes) {
    return (bytes + sizeof(double) - 1) / sizeof(double);
}

void copy_peer(double* to, int to_gpu, const double* from, int from_gpu, std::size_t bytes,
               const Stream& stream) {
    TENKEN_CUDA(cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, bytes, stream.get()));
}

Transfer of_pair(const std::string& name, int from, int to, std::size_t bytes) {
    Transfer transfer;
    transfer.name = name;
    transfer.subject = tenken::Subject::pair(from, to);
    transfer.legs = {{from, to, bytes, 0}};
    transfer.lead = from;
    return transfer;
}

/// Several concurrent copies by the engines of their sources, each repeated `in_a_row` times. The engines do
/// not start and end together, and more copies make this a smaller part of a sample.
Transfer at_once(Arena& arena, const std::string& name, const std::vector<Leg>& legs, long in_a_row) {
    Transfer transfer;
    transfer.name = name;
    transfer.in_a_row = in_a_row;
    transfer.legs = legs;
    transfer.lead = legs.front().from;
    std::vector<tenken::cuda::Together::Part> parts;
    for (const Leg& leg : legs) {
        double* const to = arena.destination(leg.to) + leg.at_element;
        const double* const from = arena.source(leg.from);
        parts.push_back({leg.from, [=](const Stream& stream) {
                             for (long i = 0; i < in_a_row; ++i) {
                                 copy_peer(to, leg.to, from, leg.from, leg.bytes, stream);
                             }
                         }});
    }
    const CurrentGpu current(transfer.lead);
    const auto together = std::make_shared<tenken::cuda::Together>(std::move(parts));
    transfer.launch = [together](const Stream& stream) { together->launch(stream); };
    return transfer;
}

/// Equal parts in whole pages.
std::size_t part_of(std::size_t bytes, std::size_t parts) {
    return std::max<std::size_t>(bytes / parts & ~std::size_t{4095}, 4096);
}

}  // namespace

double Transfer::bytes() const {
    double sum = 0;
    for (const Leg& leg : legs) sum += static_cast<double>(leg.bytes);
    return sum;
}

Arena::Arena(tenken::cuda::Gpus& gpus, std::size_t bytes) {
    std::string why_not;
    const std::shared_ptr<const tenken::Nvml> nvml = tenken::Nvml::open(why_not);
    for (const std::unique_ptr<tenken::cuda::Gpu>& gpu : gpus.list()) {
        const CurrentGpu current(gpu->index());
        Place place;
        place.gpu = gpu.get();
        place.linked.description = gpu->description();
        const std::string address = gpu->description().pci_bus_id.value_or("");
        const tenken::Nvml::Device device = nvml ? nvml->find(address, why_not) : nullptr;
        if (device != nullptr) place.linked.links = nvml->links(device);
        place.source.reset(new tenken::cuda::DeviceArray<double>(elements_of(bytes)));
        place.destination.reset(new tenken::cuda::DeviceArray<double>(elements_of(bytes)));
        place.stream.reset(new Stream);
        places_.push_back(std::move(place));
    }
}

Arena::Place& Arena::place(int gpu) {
    for (Place& place : places_) {
        if (place.gpu->index() == gpu) return place;
    }
    throw std::logic_error("GPU " + std::to_string(gpu) + " has no arrays");
}

void Arena::prepare(const std::vector<Leg>& legs, int pattern) {
    for (const Leg& leg : legs) {
        const std::size_t elements = elements_of(leg.bytes);
        Place& from = place(leg.from);
        Place& to = place(leg.to);
        {
            const CurrentGpu current(leg.from);
            tenken::cuda::fill(from.source->data(), elements, values(pattern, leg.from, leg.bytes),
                               *from.stream);
            from.stream->synchronize();
        }
        const CurrentGpu current(leg.to);
        TENKEN_CUDA(cudaMemsetAsync(to.destination->data() + leg.at_element, 0xff, elements * sizeof(double),
                                    to.stream->get()));
        to.stream->synchronize();
    }
}

tenken::Check Arena::check(const Leg& leg, int pattern, const tenken::Verified& of) {
    const CurrentGpu current(leg.to);
    Place& to = place(leg.to);
    const double* const found = to.destination->data() + leg.at_element;
    const Values expected = values(pattern, leg.from, leg.bytes);
    const std::size_t whole = leg.bytes / sizeof(double);
    tenken::ErrorScan scan(0);
    if (whole > 0) scan.merge(tenken::cuda::compare(found, whole, expected, 0, *to.stream));
    const std::size_t rest = leg.bytes % sizeof(double);
    if (rest > 0) {
        // The received bytes, completed with the expected ones.
        const double wanted = expected(whole);
        double came = wanted;
        TENKEN_CUDA(cudaMemcpy(&came, found + whole, rest, cudaMemcpyDeviceToHost));
        scan.compare(whole, came, wanted);
    }
    return scan.check(of, tenken::Subject::pair(leg.from, leg.to), {{"bytes", tenken::Json(leg.bytes)}});
}

void Arena::flip_bit(const Leg& leg) {
    const CurrentGpu current(leg.to);
    // a message may be one byte long
    char* const byte =
        reinterpret_cast<char*>(place(leg.to).destination->data() + leg.at_element) + leg.bytes / 2;
    char value = 0;
    TENKEN_CUDA(cudaMemcpy(&value, byte, 1, cudaMemcpyDefault));
    value = static_cast<char>(value ^ 1);
    TENKEN_CUDA(cudaMemcpy(byte, &value, 1, cudaMemcpyDefault));
}

Measured measure(Arena& arena, const Transfer& transfer, long repetitions, double warmup_seconds,
                 tenken::Fault fault) {
    constexpr int of_warmup = 1;
    constexpr int timed = 2;
    const CurrentGpu current(transfer.lead);
    const Stream stream;
    arena.prepare(transfer.legs, of_warmup);
    tenken::cuda::warm_up(warmup_seconds, stream, transfer.launch);
    arena.prepare(transfer.legs, timed);

    Measured measured;
    {
        std::vector<std::unique_ptr<tenken::cuda::TimedPart>> watched;
        std::vector<int> seen;
        for (const Leg& leg : transfer.legs) {
            for (int gpu : {leg.from, leg.to}) {
                if (std::count(seen.begin(), seen.end(), gpu) > 0) continue;
                seen.push_back(gpu);
                watched.emplace_back(new tenken::cuda::TimedPart(arena.gpu(gpu)));
            }
        }
        if (transfer.waits) {
            measured.seconds = tenken::time_each(repetitions, [&] { transfer.launch(stream); });
        } else {
            const tenken::cuda::Times times = tenken::cuda::time_each(repetitions, stream, transfer.launch);
            measured.seconds = times.device;
            measured.host_seconds = times.host;
        }
    }
    for (double& one : measured.seconds) one /= static_cast<double>(transfer.in_a_row);
    for (double& one : measured.host_seconds) one /= static_cast<double>(transfer.in_a_row);

    if (fault == tenken::Fault::element) arena.flip_bit(transfer.legs.front());
    for (const Leg& leg : transfer.legs) {
        measured.checks.push_back(arena.check(leg, timed, catalogue::named(transfer.name)));
    }
    return measured;
}

Transfer engine_copy(Arena& arena, const std::string& name, int from, int to, std::size_t bytes) {
    Transfer transfer = of_pair(name, from, to, bytes);
    double* const target = arena.destination(to);
    const double* const source = arena.source(from);
    transfer.launch = [=](const Stream& stream) { copy_peer(target, to, source, from, bytes, stream); };
    return transfer;
}

Transfer plain_copy(Arena& arena, int from, int to, std::size_t bytes) {
    Transfer transfer = of_pair("memcpy_peer", from, to, bytes);
    double* const target = arena.destination(to);
    const double* const source = arena.source(from);
    transfer.waits = true;
    transfer.launch = [=](const Stream&) {
        TENKEN_CUDA(cudaMemcpyPeer(target, to, source, from, bytes));
        TENKEN_CUDA(cudaDeviceSynchronize());  // it may return before completion
    };
    return transfer;
}

Transfer read(Arena& arena, int from, int to, std::size_t bytes, const tenken::cuda::Launch& launch) {
    Transfer transfer = of_pair("read", from, to, bytes);
    double* const target = arena.destination(to);
    const double* const source = arena.source(from);
    transfer.lead = to;
    transfer.note = launch.text();
    transfer.launch = [=](const Stream& stream) {
        tenken::cuda::copy(target, source, bytes / sizeof(double), launch, stream);
    };
    return transfer;
}

Transfer write(Arena& arena, int from, int to, std::size_t bytes, const tenken::cuda::Launch& launch) {
    Transfer transfer = read(arena, from, to, bytes, launch);
    transfer.name = "write";
    transfer.lead = from;
    return transfer;
}

tenken::cuda::Launch choose_launch(Arena& arena, int on, int from, int to, std::size_t bytes) {
    const CurrentGpu current(on);
    const Stream stream;
    const int multiprocessors = arena.gpu(on).description().multiprocessors;
    return tenken::cuda::choose_copy_launch(arena.destination(to), arena.source(from), bytes / sizeof(double),
                                            multiprocessors, stream);
}

Transfer both_ways(Arena& arena, int one, int other, std::size_t bytes) {
    Transfer transfer = at_once(arena, "both_ways", {{one, other, bytes, 0}, {other, one, bytes, 0}}, 8);
    transfer.subject = tenken::Subject::pair(one, other);
    return transfer;
}

Transfer all_to_one(Arena& arena, const std::vector<int>& others, int one, std::size_t bytes) {
    const std::size_t part = part_of(bytes, others.size());
    std::vector<Leg> legs;
    for (int other : others) legs.push_back({other, one, part, legs.size() * part / sizeof(double)});
    Transfer transfer = at_once(arena, "all_to_one", legs, 2);
    transfer.subject = tenken::Subject::gpu(one);
    return transfer;
}

Transfer one_to_all(Arena& arena, int one, const std::vector<int>& others, std::size_t bytes) {
    const std::size_t part = part_of(bytes, others.size());
    std::vector<Leg> legs;
    for (int other : others) legs.push_back({one, other, part, 0});
    Transfer transfer = at_once(arena, "one_to_all", legs, 2);
    transfer.subject = tenken::Subject::gpu(one);
    return transfer;
}

Transfer host_staged(Arena& arena, int from, int to, std::size_t bytes, std::size_t chunk_bytes,
                     int buffers) {
    Transfer transfer = of_pair("host_staged", from, to, bytes);
    const auto staging = std::make_shared<tenken::cuda::HostStaging>(from, to, chunk_bytes, buffers);
    double* const target = arena.destination(to);
    const double* const source = arena.source(from);
    transfer.waits = true;
    transfer.launch = [=](const Stream&) { staging->copy(target, source, bytes); };
    return transfer;
}

Transfer small_copies(Arena& arena, int from, int to, std::size_t bytes, long in_a_row) {
    Transfer transfer = engine_copy(arena, "latency", from, to, bytes);
    transfer.in_a_row = in_a_row;
    const auto once = transfer.launch;
    transfer.launch = [once, in_a_row](const Stream& stream) {
        for (long i = 0; i < in_a_row; ++i) once(stream);
    };
    return transfer;
}

}  // namespace p2p
