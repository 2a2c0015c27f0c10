// A snapshot of an N-body simulation: four arrays as in the simulation's memory, and their two layouts in
// a file.
#pragma once

#include <cstdint>

#include "lib/file_io/words.h"

namespace file_io {

/// The arrays in memory: float4 position and mass, float2 velocity x and y, float velocity z, 64-bit number.
enum Array { position_mass, velocity_xy, velocity_z, id };
constexpr int arrays = 4;
/// 32-bit words of a particle in each.
constexpr unsigned array_words[arrays] = {4, 2, 1, 2};
/// Bytes of a particle, in memory and in either layout.
constexpr unsigned particle_bytes = 36;

/// asis: the arrays unchanged. hyperslab: N x 3 positions, N x 3 velocities, N masses, N numbers.
enum class Layout { asis, hyperslab };
constexpr int datasets = 4;
/// The datasets of a layout, in the order of the file.
struct Dataset {
    const char* name;
    unsigned columns;  ///< of a particle
    bool is_id;        ///< 64-bit numbers, else 32-bit floating point
    unsigned words() const { return is_id ? 2 * columns : columns; }
};
inline const Dataset* datasets_of(Layout layout) {
    static const Dataset asis[datasets] = {
        {"position_mass", 4, false}, {"velocity_xy", 2, false}, {"velocity_z", 1, false}, {"id", 1, true}};
    static const Dataset hyperslab[datasets] = {
        {"position", 3, false}, {"velocity", 3, false}, {"mass", 1, false}, {"id", 1, true}};
    return layout == Layout::asis ? asis : hyperslab;
}
inline const char* name_of(Layout layout) {
    return layout == Layout::asis ? "asis" : "hyperslab";
}

/// The position in memory of a word of a dataset.
struct WordAt {
    int array;
    std::uint64_t word;
};

/// The array and word in memory of word `w` of dataset `d`.
FILE_IO_BOTH inline WordAt source_of(Layout layout, int d, std::uint64_t w) {
    if (layout == Layout::asis || d == 3) return {d, w};
    if (d == 0) return {position_mass, w / 3 * 4 + w % 3};
    if (d == 2) return {position_mass, w * 4 + 3};
    if (w % 3 == 2) return {velocity_z, w / 3};
    return {velocity_xy, w / 3 * 2 + w % 3};
}

/// The dataset and word in the file of word `w` of array `a`.
FILE_IO_BOTH inline WordAt place_of(Layout layout, int a, std::uint64_t w) {
    if (layout == Layout::asis || a == id) return {a, w};
    if (a == position_mass) {
        if (w % 4 == 3) return {2, w / 4};
        return {0, w / 4 * 3 + w % 4};
    }
    if (a == velocity_z) return {1, w * 3 + 2};
    return {1, w / 2 * 3 + w % 2};
}

/// The content of a snapshot; two of different generations have no array in common.
struct Particles {
    std::uint32_t generation = 1;

    FILE_IO_BOTH Words words(int array) const {
        Words words;
        words.seed = generation * 8 + static_cast<std::uint32_t>(array);
        words.kind = array == id ? Words::ids : Words::floats;
        return words;
    }
};

/// The expected content of a dataset, by word.
struct DatasetWords {
    Particles particles;
    Layout layout;
    int dataset;
    FILE_IO_BOTH std::uint32_t operator()(std::uint64_t w) const {
        const WordAt at = source_of(layout, dataset, w);
        return particles.words(at.array)(at.word);
    }
};

/// The addresses of four arrays in memory, or of four packed datasets.
struct Quartet {
    char* at[4];
};

}  // namespace file_io
