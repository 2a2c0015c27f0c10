// Generates broken texts from valid ones: the same seed gives the same text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/sparse/random.h"

namespace fuzz {

/// Random numbers in a row.
class Dice {
  public:
    explicit Dice(std::uint64_t seed) : seed_(seed) {}
    std::size_t below(std::size_t count) { return sparse::mixed_bits(seed_, ++at_, 0) % count; }

  private:
    std::uint64_t seed_;
    std::uint64_t at_ = 0;
};

/// One of `good` after one to five random changes; `words` are put into it.
inline std::string broken(Dice& dice, const std::vector<std::string>& good,
                          const std::vector<std::string>& words) {
    std::string text = good[dice.below(good.size())];
    for (std::size_t changes = 1 + dice.below(5); changes > 0; --changes) {
        const std::size_t at = dice.below(text.size() + 1);
        const std::size_t length = dice.below(8);
        switch (dice.below(6)) {
            case 0:
                text.insert(at, words[dice.below(words.size())]);
                break;
            case 1:
                text.erase(at, length);
                break;
            case 2:
                text.resize(at);
                break;
            case 3:
                if (at < text.size()) text[at] = static_cast<char>(dice.below(256));
                break;
            case 4:
                text.insert(at, text.substr(dice.below(text.size() + 1), length * 4));
                break;
            default:
                if (at < text.size()) text[at] = static_cast<char>('0' + dice.below(10));
        }
    }
    return text;
}

}  // namespace fuzz
