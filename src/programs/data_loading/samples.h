// The samples of a training data set: number, sizes, contents, and the order in which an
// epoch reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/file_io/words.h"

namespace data_loading {

/// Log-mel features of speech as RNN-T is trained on: 80 bands in single precision, a frame each 10 ms. The
/// utterances of LibriSpeech last 12.3 s on average and at most 16.7 s in training.
constexpr std::uint64_t speech_frame_bytes = 80 * 4;
constexpr std::uint64_t speech_frames = 1230;
constexpr std::uint64_t speech_least_frames = 790;
/// DeepCAM: 768 x 1152 points of 16 variables in single precision.
constexpr std::uint64_t deepcam_bytes = std::uint64_t{768} * 1152 * 16 * 4;

/// One kind of samples: "speech", "deepcam", or a size such as "64ki".
struct Kind {
    std::string name;
    std::uint64_t bytes = 0;  ///< of a sample, on average
    bool varies = false;      ///< lengths distributed like those of utterances
    std::size_t batch = 1;    ///< samples of a batch by default

    /// @return false if the word is unknown
    static bool of(const std::string& word, Kind& kind);
    /// Bytes of sample i: multiples of 4, the same in every run.
    std::uint64_t bytes_of(std::size_t sample) const;
    std::uint64_t largest() const;
};

/// The content of sample i; two samples have equal words at the same position only by chance.
inline file_io::Words content_of(std::size_t sample) {
    return {static_cast<std::uint32_t>(sample) + 1, file_io::Words::floats};
}

/// The sum over all words of (word x (2 i + 1)) modulo 2^64. Any changed bit changes it, and so does an
/// exchange of two different words.
FILE_IO_BOTH inline std::uint64_t term_of(std::uint32_t word, std::uint64_t i) {
    return static_cast<std::uint64_t>(word) * (2 * i + 1);
}
std::uint64_t checksum(const std::uint32_t* words, std::uint64_t count);
/// The expected checksum of a sample, without any file.
std::uint64_t expected_checksum(std::size_t sample, std::uint64_t bytes);

/// The order in which successive epochs read `samples`: all of them in each epoch, reshuffled
/// unless `shuffled` is false.
std::vector<std::size_t> order_of(std::size_t samples, std::size_t epochs, bool shuffled, std::uint64_t seed);

}  // namespace data_loading
