// Sliced ELL (SELL): slices of adjacent rows, each padded to its own longest row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/sparse/csr.h"

namespace sparse {

/// Slice s has the places [offsets[s], offsets[s + 1]), stored column by column: place i of its row l is at
/// offsets[s] + i * height + l. A place without an entry has column -1 and value 0.
template <typename T>
struct Sell {
    int rows = 0;
    int height = 32;  ///< rows of a slice; the last slice is filled up with empty rows
    Buffer<std::int64_t> offsets;
    Buffer<int> column;
    Buffer<T> value;

    int slices() const { return static_cast<int>(offsets.size()) - 1; }
    std::int64_t places() const { return offsets[offsets.size() - 1]; }
};

/// The first place of each slice, and the end: the padded size is known before anything is built.
inline Buffer<std::int64_t> sell_offsets(const Csr& matrix, int height) {
    const int slices = static_cast<int>((static_cast<std::int64_t>(matrix.rows) + height - 1) / height);
    Buffer<std::int64_t> offsets(static_cast<std::size_t>(slices) + 1);
    offsets[0] = 0;
    for (int s = 0; s < slices; ++s) {
        const int first = s * height;
        int width = 0;
        for (int r = first; r < std::min<std::int64_t>(std::int64_t{first} + height, matrix.rows); ++r) {
            const auto row = static_cast<std::size_t>(r);
            width = std::max(width, matrix.offsets[row + 1] - matrix.offsets[row]);
        }
        offsets[static_cast<std::size_t>(s) + 1] =
            offsets[static_cast<std::size_t>(s)] + static_cast<std::int64_t>(width) * height;
    }
    return offsets;
}

/// @throws std::bad_alloc
template <typename T>
Sell<T> to_sell(const Csr& matrix, int height, Buffer<std::int64_t> offsets) {
    Sell<T> sell;
    sell.rows = matrix.rows;
    sell.height = height;
    sell.offsets = std::move(offsets);
    sell.column = Buffer<int>(static_cast<std::size_t>(sell.places()));
    sell.value = Buffer<T>(static_cast<std::size_t>(sell.places()));
#pragma omp parallel for schedule(static)
    for (int s = 0; s < sell.slices(); ++s) {
        const std::int64_t first = sell.offsets[static_cast<std::size_t>(s)];
        const std::int64_t width = (sell.offsets[static_cast<std::size_t>(s) + 1] - first) / height;
        for (int l = 0; l < height; ++l) {
            const std::int64_t r = static_cast<std::int64_t>(s) * height + l;
            std::int64_t begin = 0;
            std::int64_t length = 0;
            if (r < matrix.rows) {
                begin = matrix.offsets[static_cast<std::size_t>(r)];
                length = matrix.offsets[static_cast<std::size_t>(r) + 1] - begin;
            }
            for (std::int64_t i = 0; i < width; ++i) {
                const auto place = static_cast<std::size_t>(first + i * height + l);
                const auto entry = static_cast<std::size_t>(begin + i);
                sell.column[place] = i < length ? matrix.column[entry] : -1;
                sell.value[place] = i < length ? static_cast<T>(matrix.value[entry]) : T(0);
            }
        }
    }
    return sell;
}

}  // namespace sparse
