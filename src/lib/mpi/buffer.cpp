#include "lib/mpi/buffer.h"

#include <cstring>

#include "lib/base/host_array.h"

namespace mpi_p2p {

namespace {

class HostBuffer : public Buffer {
  public:
    explicit HostBuffer(std::size_t bytes) : array_(bytes / sizeof(double) + 1) {}

    void* at(std::size_t offset) override { return doubles(offset); }

    void fill(std::size_t offset, std::size_t bytes, const Values& values) override {
        double* const array = doubles(offset);
        const std::size_t whole = bytes / sizeof(double);
        for (std::size_t i = 0; i * sizeof(double) < bytes; ++i) array[i] = value_at(values, whole, i);
    }

    void clear(std::size_t offset, std::size_t bytes) override {
        std::memset(doubles(offset), 0xff, (bytes + 7) / 8 * 8);
    }

    tenken::ErrorScan compare(std::size_t offset, std::size_t bytes, const Values& values) override {
        tenken::ErrorScan errors(0);
        const double* const array = doubles(offset);
        const std::size_t whole = bytes / sizeof(double);
        for (std::size_t i = 0; i < whole; ++i) errors.compare(i, array[i], value_at(values, whole, i));
        if (bytes % sizeof(double) != 0) {
            const double wanted = value_at(values, whole, whole);
            errors.compare(whole, completed(array + whole, bytes % sizeof(double), wanted), wanted);
        }
        return errors;
    }

    void flip_bit(std::size_t offset) override {
        // The lowest bit: a message may be one byte long.
        unsigned char* const first = reinterpret_cast<unsigned char*>(doubles(offset));
        *first = static_cast<unsigned char>(*first ^ 1u);
    }

  private:
    double* doubles(std::size_t offset) { return array_.data() + offset / sizeof(double); }

    tenken::HostArray array_;
};

}  // namespace

const char* text_of(Kind kind) {
    switch (kind) {
        case Kind::host:
            return "host";
        case Kind::device:
            return "device";
        case Kind::managed:
            return "managed";
    }
    return "host";
}

double completed(const void* came, std::size_t bytes, double wanted) {
    std::memcpy(&wanted, came, bytes);
    return wanted;
}

std::unique_ptr<Buffer> make_host_buffer(std::size_t bytes) {
    return std::unique_ptr<Buffer>(new HostBuffer(bytes));
}

}  // namespace mpi_p2p
