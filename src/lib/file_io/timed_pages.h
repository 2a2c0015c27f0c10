// Verification of each timed transfer by a few pages: the first, the last, and one that differs from round to
// round. All of them would take as long as the transfer, and what caches contain would be another state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lib/file_io/file.h"
#include "lib/file_io/memory_space.h"

namespace file_io {

/// Bytes [begin, begin + bytes) of an array.
struct TimedPage {
    std::uint64_t begin;
    std::uint64_t bytes;
};

/// @param bytes of the array, a multiple of a word's
inline std::vector<TimedPage> timed_pages(std::uint64_t bytes, long round) {
    const std::uint64_t page = std::min<std::uint64_t>(4096, bytes);
    const std::uint64_t some =
        static_cast<std::uint64_t>(round) * 40507 % std::max<std::uint64_t>(1, bytes / 4096);
    return {{0, page}, {std::min(some * 4096, bytes - page), page}, {bytes - page, page}};
}

/// Clears them before a timed read.
inline void clear_pages(MemorySpace& space, char* memory, std::uint64_t bytes, long round) {
    for (const TimedPage& page : timed_pages(bytes, round)) space.clear(memory + page.begin, page.bytes);
}

/// Compares words with expected(first + i), in this thread: those of OpenMP would spin into the next timed
/// part.
template <typename Expected>
Mismatch compare_page(const std::vector<std::uint32_t>& words, std::uint64_t first,
                      const Expected& expected) {
    Mismatch mismatch;
    for (std::uint64_t i = words.size(); i-- > 0;) {
        const std::uint32_t wanted = expected(first + i);
        if (words[i] != wanted) mismatch.merge({1, first + i, words[i], wanted});
    }
    return mismatch;
}

/// After a timed read.
template <typename Expected>
Mismatch compare_pages(MemorySpace& space, const char* memory, std::uint64_t bytes, long round,
                       const Expected& expected) {
    Mismatch all;
    for (const TimedPage& page : timed_pages(bytes, round)) {
        std::vector<std::uint32_t> words(page.bytes / sizeof(std::uint32_t));
        space.to_host(reinterpret_cast<char*>(words.data()), memory + page.begin, page.bytes);
        space.wait();
        all.merge(compare_page(words, page.begin / sizeof(std::uint32_t), expected));
    }
    return all;
}

/// After a timed write of `bytes` at `offset`. What is missing in the file differs.
template <typename Expected>
Mismatch compare_pages(const File& file, std::uint64_t offset, std::uint64_t bytes, long round,
                       const Expected& expected) {
    Mismatch all;
    for (const TimedPage& page : timed_pages(bytes, round)) {
        std::vector<std::uint32_t> words(page.bytes / sizeof(std::uint32_t));
        if (file.size() >= offset + page.begin + page.bytes) {
            file.read(Access::buffered, offset + page.begin, page.bytes, words.data());
        }
        all.merge(compare_page(words, page.begin / sizeof(std::uint32_t), expected));
    }
    return all;
}

}  // namespace file_io
