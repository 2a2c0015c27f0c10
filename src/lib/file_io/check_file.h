// Inspection of a file's content, independently of how it was written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/rank.h"
#include "lib/base/verification.h"
#include "lib/file_io/file.h"
#include "lib/file_io/words.h"

namespace file_io {

/// Compares words of a file from `offset` on with expected(i), piece by piece.
/// @throws FileError if the file is too short
template <typename Expected>
Mismatch compare_file(const File& file, std::uint64_t offset, std::uint64_t words, const Expected& expected) {
    constexpr std::uint64_t piece = std::uint64_t{8} << 20;
    std::vector<std::uint32_t> memory(static_cast<std::size_t>(std::min(piece, words)));
    Mismatch all;
    for (std::uint64_t first = 0; first < words; first += piece) {
        const std::uint64_t count = std::min(piece, words - first);
        file.read(Access::buffered, offset + first * sizeof(std::uint32_t),
                  static_cast<std::size_t>(count) * sizeof(std::uint32_t), memory.data());
        Mismatch part =
            compare_on_host(memory.data(), count, [&](std::uint64_t i) { return expected(first + i); });
        if (part.count > 0) part.first += first;
        all.merge(part);
    }
    return all;
}

/// Adds the rank to the first wrong element, if a launcher gave this process one.
inline tenken::Json& add_rank(tenken::Json& wrong) {
    const std::string rank = tenken::launcher_rank();
    if (!rank.empty()) wrong.set("rank", rank);
    return wrong;
}

/// A line of the document's verification: the number of words that differ, and the first of them with file,
/// offset and rank.
/// @param offset of the first wrong word's array in the file, @param word of the first wrong word from there
/// on
inline tenken::Check check_of(const Mismatch& mismatch, const tenken::Verified& of, const std::string& file,
                              std::uint64_t offset, std::uint64_t word) {
    tenken::Check check;
    check.of = of;
    check.error = static_cast<double>(mismatch.count);
    if (mismatch.count > 0) {
        check.first_wrong = tenken::Json::object();
        check.first_wrong.set("file", file)
            .set("offset", offset + word * sizeof(std::uint32_t) + mismatch.byte())
            .set("word", mismatch.first)
            .set("value", mismatch.hex(mismatch.found))
            .set("expected", mismatch.hex(mismatch.expected));
        add_rank(check.first_wrong);
    }
    return check;
}

/// For tests: flips one bit of the byte at `offset` in the file.
inline void flip_bit(File& file, std::uint64_t offset) {
    unsigned char byte = 0;
    file.read(Access::buffered, offset, 1, &byte);
    byte ^= 4;
    file.write(Access::buffered, offset, 1, &byte);
}

}  // namespace file_io
