// Rivals measured in turns, so that a clock that rises or falls favours none of them.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace gemm {

/// Times of rivals, round by round. A round goes through them there and back again: where the clock drifts
/// evenly (a power cap that bites, a card that recovers from it), all have the same share of it.
class Turns {
  public:
    /// @throws std::invalid_argument when there is no rival
    explicit Turns(std::size_t rivals);

    /// `seconds(i)` of every rival i from the first to the last, and from the last to the first.
    void round(const std::function<double(std::size_t)>& seconds);

    std::size_t rounds() const { return seconds_.front().size(); }
    /// The rate of `one` over that of `other`: median over the rounds. @throws std::logic_error before the
    /// first round
    double ratio(std::size_t one, std::size_t other) const;
    /// Half the width of the 95 % interval of `ratio`, from the scatter of the rounds (of a median: 1.2533 s
    /// / sqrt n).
    double uncertainty(std::size_t one, std::size_t other) const;
    /// The rival that is fastest; `preferred`, unless that is slower beyond the uncertainty of the rounds.
    std::size_t best(std::size_t preferred) const;
    /// The rate of `own` over that of the best: at most 1.
    double of_best(std::size_t own) const;
    /// Whether every other one is known to `precision` beside the fastest, or is slower beyond doubt.
    bool settled(double precision) const;

  private:
    std::size_t fastest() const;
    std::vector<double> ratios(std::size_t one, std::size_t other) const;

    std::vector<std::vector<double>> seconds_;  ///< by rival, a value for each round
};

/// Rounds until the fastest is `settled` to 0.5 %, at least 8 and at most `maximum_rounds`.
Turns take_turns(std::size_t rivals, std::size_t maximum_rounds,
                 const std::function<double(std::size_t)>& seconds);

}  // namespace gemm
