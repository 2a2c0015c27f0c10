// Rivals that each have the GPU to themselves for a stretch of time, long enough for its power limiter to
// settle.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tenken {

/// Seconds of rivals, stretch by stretch. At a power cap the limiter lowers the clock by the mean power of
/// the last 0.1 s and more. Rivals that take turns of milliseconds share one clock, and the one that draws
/// less power seems as fast as the others; by itself it runs at a higher clock (FP64 on an H200: 56 instead
/// of 51 TFLOP/s).
class Stretches {
  public:
    /// @throws std::invalid_argument when there is no rival
    explicit Stretches(std::size_t rivals);

    /// `seconds(i)` of every rival i, from the first to the last.
    void run(const std::function<double(std::size_t)>& seconds);
    /// Those `near` the fastest once more, from the last to the first, so that a GPU that warms up favours
    /// none of them.
    void again(const std::function<double(std::size_t)>& seconds);

    /// The rate of `one` over that of `other`. @throws std::logic_error before run()
    double ratio(std::size_t one, std::size_t other) const;
    /// The fastest; `preferred`, unless that is slower by more than `worth`.
    std::size_t best(std::size_t preferred) const;
    /// The rate of `own` over that of the fastest: at most 1.
    double of_best(std::size_t own) const;

    /// What a rival must bring over the preferred one: stretches of one algorithm differ by this.
    static constexpr double worth = 0.005;
    /// Share of the fastest one's rate below which a rival has no further stretch.
    static constexpr double near = 0.97;

  private:
    double mean(std::size_t one) const;
    std::size_t fastest() const;
    std::vector<std::size_t> close() const;

    std::vector<std::vector<double>> seconds_;  ///< by rival, a value for each of its stretches
};

}  // namespace tenken
