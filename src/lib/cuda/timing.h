// Timing of GPU work: by events on the device and by the host clock, both for the same repetition.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cuda/check.h"

namespace tenken {
namespace cuda {

/// A stream of the current GPU, which does not synchronise with the legacy default stream.
class Stream {
  public:
    enum class Priority { normal, high };
    /// @param priority high: blocks of its kernels precede those of other streams
    explicit Stream(Priority priority = Priority::normal);
    /// Makes GPU `device` current first: for a member of a class that belongs to one GPU.
    explicit Stream(int device);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    cudaStream_t get() const { return stream_; }
    /// Checks that work to be enqueued belongs to the GPU of this stream. A kernel runs on the GPU of its
    /// stream, whichever GPU is current, so a stream of another GPU would measure that one.
    /// @throws std::logic_error with both GPUs
    void require_current() const;
    /// Waits for everything enqueued so far. @throws CudaError, also for earlier asynchronous failures
    void synchronize() const;

  private:
    cudaStream_t stream_ = nullptr;
    int device_ = 0;
};

class Event {
  public:
    Event();
    ~Event();
    Event(Event&& other) noexcept : event_(other.event_) { other.event_ = nullptr; }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record(const Stream& stream);
    /// Device seconds from `earlier` to this event; both must have completed.
    double seconds_since(const Event& earlier) const;
    cudaEvent_t get() const { return event_; }

  private:
    cudaEvent_t event_ = nullptr;
};

/// Holds a stream while work is enqueued: a kernel spins on a flag in mapped host memory until the gate is
/// opened. Without it, the time that the host needs to enqueue the next call distorts times below about 100
/// us. Work enqueued behind a closed gate must not block the host (pageable copies do), and its kernels must
/// have run before, because loading a kernel may wait for the GPU. The gate opens automatically after some
/// seconds, so that a mistake does not hang the GPU.
class Gate {
  public:
    Gate();
    ~Gate();
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    void close(const Stream& stream);
    void open();
    /// How many gates of this process timed out: the work behind them was timed without a
    /// gate.
    static long expired();

  private:
    void count_expired();

    unsigned* flags_ = nullptr;  ///< the ticket that opens the gate, and that of a gate that opened by itself
    unsigned* flags_on_device_ = nullptr;
    unsigned ticket_ = 0;
    unsigned last_expired_ = 0;
};

/// Opens a gate at the end of a block, in any case.
class GateOpener {
  public:
    explicit GateOpener(Gate& gate) : gate_(gate) {}
    ~GateOpener() { gate_.open(); }
    GateOpener(const GateOpener&) = delete;
    GateOpener& operator=(const GateOpener&) = delete;

  private:
    Gate& gate_;
};

/// Seconds of each repetition, in the order measured: by events on the device (start to stop), and by the
/// host clock (from the opening of the gate, or from enqueueing without a gate, to completion seen by the
/// host).
struct Times {
    std::vector<double> device;
    std::vector<double> host;
};

/// Runs launch(stream), the function that is timed afterwards, until `seconds` of wall time have passed, and
/// at least twice. @return number of runs
template <typename Launch>
long warm_up(double seconds, const Stream& stream, Launch&& launch) {
    stream.require_current();
    return tenken::warm_up(seconds, [&] {
        launch(stream);
        stream.synchronize();
    });
}

enum class Gating { gated, open };

/// Times each of `repetitions` calls of launch(stream), which enqueues the work of one repetition.
/// @param gating Gating::open for work that blocks the host
template <typename Launch>
Times time_each(long repetitions, const Stream& stream, Launch&& launch, Gating gating = Gating::gated) {
    stream.require_current();
    Times times;
    times.device.reserve(static_cast<std::size_t>(repetitions));
    times.host.reserve(static_cast<std::size_t>(repetitions));
    Gate gate;
    Event start;
    Event stop;
    for (long i = 0; i < repetitions; ++i) {
        double begin = 0;
        if (gating == Gating::gated) {
            const GateOpener opener(gate);
            gate.close(stream);
            start.record(stream);
            launch(stream);
            stop.record(stream);
            begin = now_seconds();
        } else {
            begin = now_seconds();
            start.record(stream);
            launch(stream);
            stop.record(stream);
        }
        stream.synchronize();
        times.host.push_back(now_seconds() - begin);
        times.device.push_back(stop.seconds_since(start));
    }
    return times;
}

/// Checks that this program contains code for the current GPU.
/// @throws std::runtime_error with the GPU, its compute capability and the architectures of the build
void require_code(const std::string& compute_capability, const std::string& name);

}  // namespace cuda
}  // namespace tenken
