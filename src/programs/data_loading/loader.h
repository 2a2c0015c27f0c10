// Threads that read samples ahead of the consumer, batch by batch.
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

/// A complete batch: its samples, and their locations.
struct Batch {
    const std::size_t* samples = nullptr;
    std::size_t count = 0;
    char* memory = nullptr;  ///< sample i of the batch begins at i x the stride
};

/// Reads samples in a given order into a ring of batches. All batches of the ring except the one being
/// consumed are read ahead, so with a ring of one nothing is read while a batch is consumed.
class Loader {
  public:
    /// Reads one sample into its memory.
    typedef std::function<void(std::size_t sample, char* memory)> Read;

    /// Returns when every thread can read: what that takes is in no time of reading.
    /// @param make called once in each thread, returns its reader
    /// @param ring memory of the batches, @param stride from sample to sample within it
    /// @throws what the construction of a reader threw
    Loader(int threads, const std::function<Read()>& make, std::vector<char*> ring, std::uint64_t stride,
           std::size_t batch);
    ~Loader();
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    /// Starts to read. @param order of samples, whole batches; must exist until all of them are released
    void begin(const std::vector<std::size_t>& order);
    /// The next complete batch. @throws the exception of a reader
    Batch next();
    /// The batch returned by next() is consumed: its memory can be reused.
    void release();

  private:
    void wait_until_ready();
    void end();
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
    std::size_t begun_ = 0;             ///< samples assigned to a thread
    std::size_t given_ = 0;             ///< batches returned by next()
    std::size_t released_ = 0;          ///< consumed batches
    std::vector<std::size_t> missing_;  ///< outstanding samples of each place in the ring
    std::size_t ready_ = 0;             ///< threads
    bool ending_ = false;
    std::exception_ptr error_;
    std::vector<std::thread> threads_;
};

}  // namespace data_loading
