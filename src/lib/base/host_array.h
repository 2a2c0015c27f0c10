// Host memory for benchmarks: aligned, in huge pages if the system provides them, and untouched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

namespace tenken {

/// Memory whose pages do not exist yet, aligned to 2 MiB; released by std::free.
/// @throws std::bad_alloc
void* untouched_memory(std::size_t elements, std::size_t element_bytes);

/// An array of numbers whose pages do not exist yet: the thread that first writes an element determines its
/// NUMA node (first touch). Aligned to 2 MiB.
template <typename T>
class HostArrayOf {
    static_assert(std::is_arithmetic<T>::value, "numbers alone: nothing is constructed");

  public:
    /// @throws std::bad_alloc
    explicit HostArrayOf(std::size_t elements)
        : data_(static_cast<T*>(untouched_memory(elements, sizeof(T)))), size_(elements) {}
    ~HostArrayOf() { std::free(data_); }
    HostArrayOf(HostArrayOf&& other) noexcept : data_(other.data_), size_(other.size_) {
        other.data_ = nullptr;
        other.size_ = 0;
    }
    HostArrayOf(const HostArrayOf&) = delete;
    HostArrayOf& operator=(const HostArrayOf&) = delete;

    T* data() { return data_; }
    const T* data() const { return data_; }
    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(T); }
    T& operator[](std::size_t i) { return data_[i]; }
    T operator[](std::size_t i) const { return data_[i]; }

  private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

/// The type used by most benchmarks.
using HostArray = HostArrayOf<double>;

/// One thread's contiguous share of [0, elements): whole 4 KiB pages, so that no page and no cache line is
/// shared. Every loop over a host array uses it, so that each element is used by the thread that first
/// touched it. All arrays of a loop must have elements of the same size; otherwise their shares would differ.
struct Share {
    std::size_t begin;
    std::size_t end;
};
Share share_of(std::size_t elements, int thread, int threads, std::size_t element_bytes = sizeof(double));

}  // namespace tenken

#ifdef _OPENMP
#include <omp.h>
#endif

namespace tenken {

/// Calls work(begin, end) once in every OpenMP thread, with that thread's share: in_shares<std::int32_t>(n,
/// ...) for an array of such numbers.
template <typename T = double, typename Work>
void in_shares(std::size_t elements, Work&& work) {
#ifdef _OPENMP
#pragma omp parallel
    {
        const Share share = share_of(elements, omp_get_thread_num(), omp_get_num_threads(), sizeof(T));
        work(share.begin, share.end);
    }
#else
    work(std::size_t{0}, elements);
#endif
}

}  // namespace tenken
