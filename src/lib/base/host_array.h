// Host memory for benchmarks: aligned, in huge pages where the system gives them, and untouched.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tenken {

/// An array of doubles whose pages do not exist yet: the thread that writes an element first decides on
/// which NUMA node it lies (first touch). Aligned to 2 MiB.
class HostArray {
  public:
    /// @throws std::bad_alloc
    explicit HostArray(std::size_t elements);
    ~HostArray();
    HostArray(HostArray&& other) noexcept;
    HostArray(const HostArray&) = delete;
    HostArray& operator=(const HostArray&) = delete;

    double* data() { return data_; }
    const double* data() const { return data_; }
    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(double); }
    double& operator[](std::size_t i) { return data_[i]; }
    double operator[](std::size_t i) const { return data_[i]; }

  private:
    double* data_ = nullptr;
    std::size_t size_ = 0;
};

/// One thread's contiguous share of [0, elements): whole 4 KiB pages of doubles, so that no page and no
/// cache line is shared. Every loop over a HostArray uses it, so the thread that touched an element first
/// is the one that uses it afterwards.
struct Share {
    std::size_t begin;
    std::size_t end;
};
Share share_of(std::size_t elements, int thread, int threads);

}  // namespace tenken

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tenken {

/// Calls work(begin, end) once in every OpenMP thread, with that thread's share.
template <typename Work>
void in_shares(std::size_t elements, Work&& work) {
#ifdef _OPENMP
#pragma omp parallel
    {
        const Share share = share_of(elements, omp_get_thread_num(), omp_get_num_threads());
        work(share.begin, share.end);
    }
#else
    work(std::size_t{0}, elements);
#endif
}

}  // namespace tenken
