// The methods of transfer between the GPUs of a node, and their memory.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/document.h"
#include "lib/base/links.h"
#include "lib/base/program.h"
#include "lib/cuda/gpus.h"
#include "lib/cuda/launch.h"
#include "lib/cuda/memory.h"
#include "lib/cuda/peer.h"
#include "lib/cuda/timing.h"

namespace p2p {

/// The expected result of one copy of a transfer: the first `bytes` of the source's memory, at an offset in
/// that of the destination. GPUs by CUDA index.
struct Leg {
    int from;
    int to;
    std::size_t bytes;
    std::size_t at_element;  ///< in doubles, in the destination
};

/// One method of transfer, as one metric.
struct Transfer {
    std::string name;  ///< as in metrics.yaml
    tenken::Subject subject = tenken::Subject::host();
    std::vector<Leg> legs;
    int lead = 0;           ///< the GPU whose stream is timed
    bool waits = false;     ///< whether launch() returns only after completion: then the host clock times it
    long in_a_row = 1;      ///< number of transfers per launch(); the time is per transfer
    std::string note = {};  ///< for the document's path: how a kernel is launched
    std::function<void(const tenken::cuda::Stream&)> launch;

    /// Total bytes of all legs, once.
    double bytes() const;
};

/// Two arrays on every GPU: one that is only read, one that is only written.
class Arena {
  public:
    /// @param bytes of each array, a multiple of 8
    Arena(tenken::cuda::Gpus& gpus, std::size_t bytes);

    double* source(int gpu) { return place(gpu).source->data(); }
    double* destination(int gpu) { return place(gpu).destination->data(); }
    tenken::cuda::Gpu& gpu(int index) { return *place(index).gpu; }
    const tenken::LinkedGpu& linked(int index) { return place(index).linked; }

    /// Writes the values of `pattern` into the sources of the legs, and NaN into their destinations.
    void prepare(const std::vector<Leg>& legs, int pattern);
    /// Compares the result of a leg with prepare()'s values, exactly.
    tenken::Check check(const Leg& leg, int pattern, const tenken::Verified& of);
    /// For --inject-fault element.
    void flip_bit(const Leg& leg);

  private:
    struct Place {
        tenken::cuda::Gpu* gpu;
        tenken::LinkedGpu linked;
        std::unique_ptr<tenken::cuda::DeviceArray<double>> source;
        std::unique_ptr<tenken::cuda::DeviceArray<double>> destination;
        std::unique_ptr<tenken::cuda::Stream> stream;
    };
    Place& place(int gpu);

    std::vector<Place> places_;
};

/// Duration, and the error of the result, if any.
struct Measured {
    std::vector<double> seconds;       ///< one entry per repetition, of one transfer
    std::vector<double> host_seconds;  ///< the same by the host clock, if `seconds` are the device's
    std::vector<tenken::Check> checks;
};

/// Warms up, times and verifies one transfer.
Measured measure(Arena& arena, const Transfer& transfer, long repetitions, double warmup_seconds,
                 tenken::Fault fault);

/// By the copy engine, in stream order: cudaMemcpyPeerAsync. With peer access it is direct, without it
/// the driver stages it through the host.
Transfer engine_copy(Arena& arena, const std::string& name, int from, int to, std::size_t bytes);
/// By plain cudaMemcpyPeer, from call to completion by the host clock: the reference for the others.
Transfer plain_copy(Arena& arena, int from, int to, std::size_t bytes);
/// By a kernel on the destination that reads from the source. Requires peer access, as do those below.
Transfer read(Arena& arena, int from, int to, std::size_t bytes, const tenken::cuda::Launch& launch);
/// By a kernel on the source that writes to the destination.
Transfer write(Arena& arena, int from, int to, std::size_t bytes, const tenken::cuda::Launch& launch);
/// The best launch configuration of read() or write(), by a short measurement.
tenken::cuda::Launch choose_launch(Arena& arena, int on, int from, int to, std::size_t bytes);
/// Both directions at the same time by the copy engines.
Transfer both_ways(Arena& arena, int one, int other, std::size_t bytes);
/// From all others to one GPU at the same time, `bytes` in total.
Transfer all_to_one(Arena& arena, const std::vector<int>& others, int one, std::size_t bytes);
/// From one GPU to all others at the same time, `bytes` in total.
Transfer one_to_all(Arena& arena, int one, const std::vector<int>& others, std::size_t bytes);
/// Through host memory by this program, in chunks.
Transfer host_staged(Arena& arena, int from, int to, std::size_t bytes, std::size_t chunk_bytes, int buffers);
/// `in_a_row` small copies in stream order: the time of one of them.
Transfer small_copies(Arena& arena, int from, int to, std::size_t bytes, long in_a_row);

}  // namespace p2p
