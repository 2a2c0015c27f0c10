// Comparison of configurations on a machine with other activity. They run in rounds, each configuration once
// per round in random order, so that a disturbance affects all. Those far behind drop out, and comparisons
// that are undecided after a few rounds get further rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace file_io {

/// Seconds of each configuration by round.
typedef std::vector<std::vector<double>> Times;
/// Runs configuration i in this round, and returns its seconds. Round 0 is a warm-up.
typedef std::function<double(std::size_t i, long round)> Once;

/// A confidence interval of the median, from signs alone, for noise of any distribution.
struct Interval {
    double low = 0;
    double median = 0;
    double high = 0;
};
/// The median is beyond either end with a probability of at most `beyond` (exact binomial): 99 %
/// confidence. For too few samples (fewer than eight; fifteen for 0.005 %) the minimum and the maximum.
/// @throws std::invalid_argument if there is no sample
Interval median_interval(std::vector<double> samples, double beyond = 0.005);
/// A rival has won only if its ratio exceeds the bound by this factor: among many rivals, sizes and
/// evaluations, none may reject a choice by chance.
constexpr double surely = 0.00005;
/// Whether the median of the samples is below the bound with confidence.
bool surely_below(const std::vector<double>& samples, double bound);

/// Seconds of `other` over those of `one`, round by round, as long as both have rounds; above 1 `one` is
/// faster.
std::vector<double> pair_ratios(const std::vector<double>& one, const std::vector<double>& other);

/// Number and duration of rounds.
struct Rounds {
    bool warm_up = true;  ///< whether a round 0 is made, whose seconds do not count
    long minimum = 5;     ///< minimum number of rounds, in addition to the warm-up
    long maximum = 100;   ///< maximum number of rounds
    double seconds = 1;   ///< after these seconds no further round begins
    /// From three rounds on, configurations whose fastest round took longer than 1/keep of the lowest median
    /// drop out permanently. 0: none does.
    double keep = 0.6;
    std::uint32_t seed = 1;  ///< of the random order
    /// If given: configurations with the same number are adjacent in every round, so that pairs consist of
    /// neighbours; numbers and the configurations of a number are in random order.
    std::vector<std::size_t> groups;
    /// If given: called after 8, 12, 18, 27, ... rounds to select which of the remaining ones continue;
    /// evaluations are few, so that chance has little effect. None: it ends.
    std::function<std::vector<std::size_t>(const Times& times, const std::vector<std::size_t>& alive)> retain;
};

/// Calls one(i, round) for i in [0, count), and stores the returned seconds.
/// @return for each the seconds of rounds 1, 2, ..., in order; at least three each, unless fewer rounds
/// are requested
Times run_rounds(std::size_t count, const Rounds& rounds, const Once& one);

/// How many further rounds a choice may use, and the order of its configurations.
struct Deciding {
    double seconds = 5;  ///< after these seconds it ends undecided
    long maximum = 300;  ///< and after this many rounds
    std::uint32_t seed = 1;
};

/// The configurations among which the fastest is to be chosen, after the same rounds.
struct Finalists {
    std::vector<std::size_t> configs;
    Times times;  ///< of each of them, rounds in which all of them took part
};
/// Makes further rounds of the configuration with the lowest median and those that may be faster than it by
/// more than `tie`, until there are none. Those that dropped out after three bad rounds are measured again:
/// if one is no longer behind, all of them start again.
/// @param times of all configurations; new measurements are added
Finalists find_fastest(Times& times, double tie, const Deciding& limit, const Once& one);

/// Of the finalists whose median is within a fraction `tie` of the lowest: `preferred` if it is one of them
/// (between equally good ones the choice must not change from size to size), otherwise the one with the
/// lowest upper end of its interval.
/// @param preferred a configuration, or the number of configurations if none is preferred
/// @return the configuration
/// @throws std::invalid_argument if there is none
std::size_t choose_fastest(const Finalists& finalists, std::size_t preferred, double tie);

/// The outcome of comparing a chosen configuration with all others.
struct Judgement {
    enum class Outcome {
        alone,     ///< there is no other configuration
        held,      ///< at least the bound relative to every other one, with 99 % confidence for each
        missed,    ///< below it with confidence, relative to one of them
        undecided  ///< the limit was reached before
    };
    Outcome outcome = Outcome::alone;
    /// The rival's seconds over those of the choice: of the rival that is faster, of the best undecided one,
    /// or of the closest one.
    std::vector<double> ratios;
    Interval interval;
    std::size_t rival = 0;   ///< which rival; meaningless if there is none
    std::size_t rivals = 0;  ///< number of rivals compared in separate rounds
    std::size_t left = 0;    ///< number of undecided rivals
};

/// Whether a previously chosen configuration reaches `bound` of the rate of every other one. Rivals that the
/// available rounds leave undecided are measured again together with it, since they may have become rivals by
/// chance. Each is measured until the interval of its ratio is on one side of the bound, or the limit is
/// reached.
/// @param times of all configurations; measurements of those that had dropped out are added
Judgement judge_choice(Times& times, std::size_t chosen, double bound, const Deciding& limit,
                       const Once& one);

/// A comparison of two configurations.
struct Pair {
    std::size_t one;
    std::size_t other;
};
/// Makes further rounds of undecided pairs, the two of a pair always adjacent, until the median of the
/// second's seconds over the first's is known to be above or below the bound, or the limit is reached. The
/// remaining time goes to the pair on which the least was spent so far, so that slow pairs leave as much to
/// fast ones.
/// @param times of all configurations; new measurements are added
/// @return the pairs that are undecided at the limit
std::vector<Pair> decide_pairs(Times& times, const std::vector<Pair>& pairs, double bound,
                               const Deciding& limit, const Once& one);

/// Compares a configuration with the best of several, round by round, without the bias of selecting the
/// lowest of many medians: in odd rounds the best is the one with the lowest median of the even ones, and
/// vice versa. Above 1: the configuration is faster.
/// @param one seconds by round; @param others the same for each rival; those with fewer rounds than `one`
/// have lost, and count only if all have
/// @return a ratio for each round
/// @throws std::invalid_argument if there are fewer than two rounds, or no rival
std::vector<double> against_best(const std::vector<double>& one, const Times& others);

}  // namespace file_io
