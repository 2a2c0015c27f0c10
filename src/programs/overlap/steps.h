// A computation in time steps whose state is written periodically.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lib/base/passes.h"
#include "lib/file_io/memory_space.h"

namespace overlap {

/// Steps that occupy the memory for a given time and end with a new state: Words with the step number as
/// seed.
class Steps {
  public:
    virtual ~Steps() = default;
    /// The number of passes over the arrays with which a step by itself takes this time. Runs some.
    virtual int calibrate(double seconds) = 0;
    virtual void set_passes(int passes) = 0;
    /// Starts a step after the previous ones.
    virtual void step(std::uint32_t number) = 0;
    /// Copies the state after the steps started so far, to memory of the same side.
    virtual void copy_state(char* to) = 0;
    /// A function that waits, in any thread, for everything started so far.
    virtual std::function<void()> marker() = 0;
    /// The same as a CUDA event, valid until the next call; null on the host.
    virtual void* event() = 0;
    /// Waits for completion.
    virtual void wait() = 0;
};

/// @param state location of the state, @param bytes of it and of each of two other arrays
/// @param threads computing threads
std::unique_ptr<Steps> make_host_steps(char* state, std::uint64_t bytes, int threads);
/// On the current GPU. Null in a build without CUDA.
std::unique_ptr<Steps> make_gpu_steps(char* state, std::uint64_t bytes);

}  // namespace overlap
