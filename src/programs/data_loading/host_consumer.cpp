#include <algorithm>

#include "lib/base/host_array.h"
#include "programs/data_loading/consumer.h"
#include "programs/data_loading/samples.h"

namespace data_loading {

namespace {

/// One thread, because the others read.
class HostConsumer : public Consumer {
  public:
    HostConsumer() : a_(elements), b_(elements) {
        std::fill(a_.data(), a_.data() + elements, 0.0);
        std::fill(b_.data(), b_.data() + elements, 1.0);
    }
    void step(const char* memory, std::uint64_t stride, const std::vector<std::uint64_t>& words,
              std::vector<std::uint64_t>& sums) override {
        for (std::size_t i = 0; i < words.size(); ++i) {
            sums[i] = checksum(reinterpret_cast<const std::uint32_t*>(memory + i * stride), words[i]);
        }
        for (int pass = 0; pass < passes_; ++pass) sweep();
    }

  private:
    static constexpr std::size_t elements = std::size_t{1} << 18;
    void sweep() {
        double* const a = a_.data();
        const double* const b = b_.data();
        for (std::size_t i = 0; i < elements; ++i) a[i] = 0.5 * a[i] + b[i];
    }
    tenken::HostArray a_;
    tenken::HostArray b_;
};

}  // namespace

std::unique_ptr<Consumer> make_host_consumer() {
    return std::unique_ptr<Consumer>(new HostConsumer);
}

#ifndef TENKEN_HAVE_CUDA
std::unique_ptr<Consumer> make_gpu_consumer(std::size_t) {
    return nullptr;
}
#endif

}  // namespace data_loading
