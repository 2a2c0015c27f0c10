#include "lib/base/host_array.h"

#include <sys/mman.h>

#include <limits>
#include <new>

namespace tenken {

namespace {
constexpr std::size_t alignment = std::size_t{2} << 20;
constexpr std::size_t page_bytes = 4096;
}  // namespace

void* untouched_memory(std::size_t elements, std::size_t element_bytes) {
    if (elements > (std::numeric_limits<std::size_t>::max() - alignment) / element_bytes)
        throw std::bad_alloc();
    // Whole huge pages: the tail of an array would otherwise be in small pages, or in another array's.
    const std::size_t rounded = (elements * element_bytes + alignment - 1) / alignment * alignment;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, rounded) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(memory, rounded, MADV_HUGEPAGE);  // optional: without it the run is only slightly slower
#endif
    return memory;
}

Share share_of(std::size_t elements, int thread, int threads, std::size_t element_bytes) {
    const std::size_t page_elements = page_bytes / element_bytes;
    const std::size_t pages = (elements + page_elements - 1) / page_elements;
    const auto from = [&](int t) {
        const std::size_t page = pages * static_cast<std::size_t>(t) / static_cast<std::size_t>(threads);
        const std::size_t element = page * page_elements;
        return element < elements ? element : elements;
    };
    return {from(thread), from(thread + 1)};
}

}  // namespace tenken
