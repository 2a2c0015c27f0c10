// Threads that read samples ahead of the one who consumes them, batch by batch.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "programs/data_loading/reader.h"

namespace data_loading {

/// A batch that is whole: its samples, and where each lies.
struct Batch {
    const std::size_t* samples = nullptr;
    std::size_t count = 0;
    char* memory = nullptr;  ///< sample i of the batch begins at i x the stride
};

/// Reads the samples of an order into a ring of batches. As many batches as the ring has, less the one that
/// is being consumed, are read ahead; with a ring of one nothing is read while a batch is consumed.
class Loader {
  public:
    /// Reads one sample into memory of its own.
    typedef std::function<void(std::size_t sample, char* memory)> Read;

    /// @param make called once in each thread, gives what it reads by
    /// @param ring memory of the batches, @param stride from sample to sample within it
    Loader(int threads, const std::function<Read()>& make, std::vector<char*> ring, std::uint64_t stride,
           std::size_t batch);
    ~Loader();
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    /// Until every thread can read. @throws what making a reader threw
    void wait_until_ready();
    /// Begins to read. @param order of samples, whole batches; must live until all of them are released
    void begin(const std::vector<std::size_t>& order);
    /// The next batch, when all of it is there. @throws what reading threw
    Batch next();
    /// The batch that next() gave is consumed: its memory may be read into.
    void release();

  private:
    void serve(const std::function<Read()>& make);
    bool may_read() const {
        return order_ != nullptr && begun_ < order_->size() && begun_ / batch_ < released_ + ring_.size();
    }

    std::vector<char*> ring_;
    std::uint64_t stride_;
    std::size_t batch_;
    std::mutex mutex_;
    std::condition_variable to_read_;
    std::condition_variable is_there_;
    const std::vector<std::size_t>* order_ = nullptr;
    std::size_t begun_ = 0;             ///< samples that a thread has taken
    std::size_t given_ = 0;             ///< batches that next() gave
    std::size_t released_ = 0;          ///< batches that are consumed
    std::vector<std::size_t> missing_;  ///< samples of each place of the ring that are still to come
    std::size_t ready_ = 0;             ///< threads
    bool ending_ = false;
    std::exception_ptr error_;
    std::vector<std::thread> threads_;
};

}  // namespace data_loading
