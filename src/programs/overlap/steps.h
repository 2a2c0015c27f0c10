// A computation in time steps whose state is to be written now and then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lib/file_io/memory_space.h"

namespace overlap {

/// Steps that keep the memory busy for a set time and end with a new state: Words with the step's number as
/// seed.
class Steps {
  public:
    virtual ~Steps() = default;
    /// How many passes over its arrays a step makes, so that it takes this time alone. Runs some.
    virtual int calibrate(double seconds) = 0;
    virtual void set_passes(int passes) = 0;
    /// Begins a step behind those before it.
    virtual void step(std::uint32_t number) = 0;
    /// Copies the state behind the steps begun so far, to memory of the same side.
    virtual void copy_state(char* to) = 0;
    /// What waits, in any thread, for all that was begun up to now.
    virtual std::function<void()> marker() = 0;
    /// The same as an event of CUDA, valid until the next call; null on the host.
    virtual void* event() = 0;
    /// Until all is over.
    virtual void wait() = 0;
};

/// @param state where the state lies, @param bytes of it and of each of two arrays besides
/// @param threads that compute
std::unique_ptr<Steps> make_host_steps(char* state, std::uint64_t bytes, int threads);
/// On the current GPU. Null in a build without CUDA.
std::unique_ptr<Steps> make_gpu_steps(char* state, std::uint64_t bytes);

}  // namespace overlap
