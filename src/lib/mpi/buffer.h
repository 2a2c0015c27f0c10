// Message buffers: on the host, on the GPU, or managed.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "lib/base/verification.h"

namespace mpi_p2p {

enum class Kind { host, device, managed };
const char* text_of(Kind kind);

/// The doubles of a message: exact in double precision, different for adjacent elements. Sums over ranks have
/// the number of ranks as `scale`.
struct Values {
    double base;
    double scale;
};
constexpr std::size_t period = 1021;
/// @param whole doubles that the message has in full
inline double value_at(const Values& values, std::size_t whole, std::size_t i) {
    if (i >= whole) return tenken::cut_off(values.base);
    return values.base + values.scale * (static_cast<double>(i % period) / 1024.0);
}

/// Messages are at multiples of 256 bytes.
class Buffer {
  public:
    virtual ~Buffer() = default;
    virtual void* at(std::size_t offset_bytes) = 0;
    /// Writes a message of `bytes`, rounded up to whole doubles.
    virtual void fill(std::size_t offset_bytes, std::size_t bytes, const Values& values) = 0;
    /// Overwrites a message with NaN.
    virtual void clear(std::size_t offset_bytes, std::size_t bytes) = 0;
    /// Compares a message, every byte.
    virtual tenken::ErrorScan compare(std::size_t offset_bytes, std::size_t bytes, const Values& values) = 0;
    /// For --inject-fault element: flips a bit of the first double of a message.
    virtual void flip_bit(std::size_t offset_bytes) = 0;
};

std::unique_ptr<Buffer> make_host_buffer(std::size_t bytes);

/// The last element of a message that does not end with a whole double: the received bytes,
/// completed with the expected ones.
double completed(const void* came, std::size_t bytes, double wanted);

}  // namespace mpi_p2p
