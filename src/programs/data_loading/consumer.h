// The consumer of the batches: a step that reads every word of every sample, and computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace data_loading {

class Consumer {
  public:
    virtual ~Consumer() = default;
    /// One step: the checksums of `count` samples, sample i of words[i] words at memory + i x stride; then
    /// the set number of passes over its own arrays. Returns when it is complete.
    virtual void step(const char* memory, std::uint64_t stride, const std::vector<std::uint64_t>& words,
                      std::vector<std::uint64_t>& sums) = 0;
    void set_passes(int passes) { passes_ = passes; }

  protected:
    int passes_ = 0;
};

std::unique_ptr<Consumer> make_host_consumer();
/// On the current GPU. Null in a build without CUDA.
std::unique_ptr<Consumer> make_gpu_consumer(std::size_t batch);

}  // namespace data_loading
