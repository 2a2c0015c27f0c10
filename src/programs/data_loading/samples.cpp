#include "programs/data_loading/samples.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "lib/file_io/memory_space.h"

namespace data_loading {

namespace {

/// SplitMix64: the same numbers on every platform.
class Numbers {
  public:
    explicit Numbers(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        state_ += 0x9E3779B97F4A7C15u;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    /// Below `end`; practically uniform for the counts used here.
    std::uint64_t below(std::uint64_t end) { return next() % end; }

  private:
    std::uint64_t state_;
};

}  // namespace

bool Kind::of(const std::string& word, Kind& kind) {
    kind = Kind();
    kind.name = word;
    if (word == "speech") {
        kind.bytes = speech_frames * speech_frame_bytes;
        kind.varies = true;
        kind.batch = 32;
        return true;
    }
    if (word == "deepcam") {
        kind.bytes = deepcam_bytes;
        kind.batch = 2;
        return true;
    }
    char* end = nullptr;
    if (word.empty() || word[0] < '1' || word[0] > '9') return false;
    kind.bytes = std::strtoull(word.c_str(), &end, 10);
    const std::string unit = end;
    if (unit != "" && unit != "ki" && unit != "mi" && unit != "gi") return false;
    if (kind.bytes > (std::uint64_t{1} << 32)) return false;
    kind.bytes <<= unit == "ki" ? 10 : unit == "mi" ? 20 : unit == "gi" ? 30 : 0;
    if (kind.bytes < 4096 || kind.bytes > (std::uint64_t{4} << 30) || kind.bytes % 4 != 0) return false;
    if (file_io::short_bytes(kind.bytes) != word) return false;
    const std::uint64_t of_32_mib = (std::uint64_t{32} << 20) / kind.bytes;
    kind.batch = static_cast<std::size_t>(std::max<std::uint64_t>(1, std::min<std::uint64_t>(64, of_32_mib)));
    return true;
}

std::uint64_t Kind::bytes_of(std::size_t sample) const {
    if (!varies) return bytes;
    // Evenly distributed around the mean, which is met as closely as the count allows.
    const std::uint64_t lengths = 2 * (speech_frames - speech_least_frames) + 1;
    const std::uint64_t frames = speech_least_frames + sample * 389 % lengths;
    return frames * speech_frame_bytes;
}

std::uint64_t Kind::largest() const {
    return varies ? (2 * speech_frames - speech_least_frames) * speech_frame_bytes : bytes;
}

std::uint64_t checksum(const std::uint32_t* words, std::uint64_t count) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) sum += term_of(words[i], i);
    return sum;
}

std::uint64_t expected_checksum(std::size_t sample, std::uint64_t bytes) {
    const file_io::Words values = content_of(sample);
    std::uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (std::uint64_t i = 0; i < bytes / 4; ++i) sum += term_of(values(i), i);
    return sum;
}

std::vector<std::size_t> order_of(std::size_t samples, std::size_t epochs, bool shuffled,
                                  std::uint64_t seed) {
    Numbers numbers(seed);
    std::vector<std::size_t> order;
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        const std::size_t first = order.size();
        order.resize(first + samples);
        std::iota(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(), std::size_t{0});
        for (std::size_t left = samples; shuffled && left > 1; --left) {
            std::swap(order[first + left - 1], order[first + numbers.below(left)]);
        }
    }
    return order;
}

}  // namespace data_loading
