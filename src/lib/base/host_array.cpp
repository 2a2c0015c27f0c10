#include "lib/base/host_array.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace tenken {

namespace {
constexpr std::size_t alignment = std::size_t{2} << 20;
constexpr std::size_t page_elements = 4096 / sizeof(double);
}  // namespace

HostArray::HostArray(std::size_t elements) : size_(elements) {
    // Whole huge pages: the tail of an array would otherwise lie in small ones, or in its neighbour's.
    const std::size_t rounded = (bytes() + alignment - 1) / alignment * alignment;
    void* memory = nullptr;
    if (rounded < bytes() || posix_memalign(&memory, alignment, rounded) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(memory, rounded, MADV_HUGEPAGE);  // a wish: without it the run is only a little slower
#endif
    data_ = static_cast<double*>(memory);
}

HostArray::HostArray(HostArray&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
    other.size_ = 0;
}

HostArray::~HostArray() {
    std::free(data_);
}

Share share_of(std::size_t elements, int thread, int threads) {
    const std::size_t pages = (elements + page_elements - 1) / page_elements;
    const auto from = [&](int t) {
        const std::size_t page = pages * static_cast<std::size_t>(t) / static_cast<std::size_t>(threads);
        const std::size_t element = page * page_elements;
        return element < elements ? element : elements;
    };
    return {from(thread), from(thread + 1)};
}

}  // namespace tenken
