// Candidates that each have the GPU to themselves for a period long enough for its power limiter to settle.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tenken {

/// Seconds of the candidates by period. At a power cap the limiter lowers the clock according to the mean
/// power of at least the last 0.1 s. Candidates that alternate every few milliseconds share one clock, so one
/// that draws less power seems no faster. Alone it runs at a higher clock (FP64 on an H200: 56 instead of 51
/// TFLOP/s).
class Stretches {
  public:
    /// @throws std::invalid_argument if there is no candidate
    explicit Stretches(std::size_t rivals);

    /// `seconds(i)` of every candidate i, from the first to the last.
    void run(const std::function<double(std::size_t)>& seconds);
    /// One more period for those `near` the fastest, from the last to the first, so that a warming GPU
    /// favours none of them.
    void again(const std::function<double(std::size_t)>& seconds);

    /// The rate of `one` over that of `other`. @throws std::logic_error before run()
    double ratio(std::size_t one, std::size_t other) const;
    /// The fastest; `preferred`, unless it is slower by more than `worth`.
    std::size_t best(std::size_t preferred) const;
    /// The rate of `own` over that of the fastest: at most 1.
    double of_best(std::size_t own) const;

    /// Minimum gain over the preferred candidate, since periods of the same algorithm differ by this much.
    static constexpr double worth = 0.005;
    /// Fraction of the fastest one's rate below which a candidate gets no further period.
    static constexpr double near = 0.97;

  private:
    double mean(std::size_t one) const;
    std::size_t fastest() const;
    std::vector<std::size_t> close() const;

    std::vector<std::vector<double>> seconds_;  ///< by candidate, a value for each of its periods
};

}  // namespace tenken
