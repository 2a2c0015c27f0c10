// Comparing ways to do the same thing on a machine that is not quiet: in rounds, each way once a round in
// random order, so that what disturbs one disturbs all; those far behind drop out, and what a few rounds
// leave open is decided by more of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace file_io {

/// Seconds of each way by round.
typedef std::vector<std::vector<double>> Times;
/// Does what way i does in this round, and returns its seconds. Round 0 warms up.
typedef std::function<double(std::size_t i, long round)> Once;

/// Where the median of what was sampled lies, by signs alone, whatever the noise looks like.
struct Interval {
    double low = 0;
    double median = 0;
    double high = 0;
};
/// The median lies beyond either end with a probability of at most `beyond` (exact binomial): 99 %
/// confidence. Of so few samples that this cannot be (fewer than eight; fifteen for 0.005 %) the least and
/// the largest.
/// @throws std::invalid_argument when there is no sample
Interval median_interval(std::vector<double> samples, double beyond = 0.005);
/// A rival has won only when its ratio lies beyond the bound by this: there are many rivals, sizes and looks,
/// and none of them may fail a choice by luck.
constexpr double surely = 0.00005;
/// Whether the median of the samples surely is below the bound.
bool surely_below(const std::vector<double>& samples, double bound);

/// The other's seconds over the one's, round by round, as long as both have rounds: above 1 the one is
/// faster.
std::vector<double> pair_ratios(const std::vector<double>& one, const std::vector<double>& other);

/// How long to go on.
struct Rounds {
    bool warm_up = true;  ///< a round 0 is made, whose seconds do not count
    long minimum = 5;     ///< rounds that are made in any case, besides the one that warms up
    long maximum = 100;   ///< rounds that are made at most
    double seconds = 1;   ///< after these no further round begins
    /// From three rounds on those whose fastest round took longer than 1/keep of the lowest median drop out,
    /// for good. 0: none does.
    double keep = 0.6;
    std::uint32_t seed = 1;  ///< of the order
    /// Where given: ways of one number stand beside each other in every round, so that a pair is made of
    /// neighbours; numbers and ways of a number are in random order.
    std::vector<std::size_t> groups;
    /// Where given: asked after 8, 12, 18, 27, ... rounds (few looks, so that luck has few chances) which of
    /// those alive go on. None: it ends.
    std::function<std::vector<std::size_t>(const Times& times, const std::vector<std::size_t>& alive)> retain;
};

/// Calls one(i, round) for i in [0, count), and keeps the seconds that it returns.
/// @return for each the seconds of rounds 1, 2, ..., in their order; at least three each, unless fewer rounds
/// are asked for
Times run_rounds(std::size_t count, const Rounds& rounds, const Once& one);

/// How much of these rounds a choice may still use, and the order of its ways.
struct Deciding {
    double seconds = 5;  ///< after these it ends undecided
    long maximum = 300;  ///< and after so many rounds
    std::uint32_t seed = 1;
};

/// The ways between which the fastest is to be chosen, after the same rounds.
struct Finalists {
    std::vector<std::size_t> configs;
    Times times;  ///< of each of them, rounds in which all of them took part
};
/// Makes further rounds of those ways that may be faster than the one with the lowest median by more than
/// `tie`, beside that one, until none may be any more. What dropped out after three bad rounds is looked at
/// again: where it is not behind any more, all of them begin anew.
/// @param times of all ways; what is measured is added
Finalists find_fastest(Times& times, double tie, const Deciding& limit, const Once& one);

/// Of the finalists whose median is within a fraction `tie` of the lowest: `preferred` if it is one of them
/// (between equally good ones the choice must not change from size to size), else the one with the lowest
/// upper end of its interval.
/// @param preferred a way, or the number of ways where none is preferred
/// @return the way @throws std::invalid_argument when there is none
std::size_t choose_fastest(const Finalists& finalists, std::size_t preferred, double tie);

/// What became of a way that was chosen, held against all others.
struct Judgement {
    enum class Outcome {
        alone,     ///< there is no other way
        held,      ///< at least the bound of every other way, with 99 % confidence for each
        missed,    ///< surely below it, of one of them
        undecided  ///< the limit was reached before
    };
    Outcome outcome = Outcome::alone;
    /// The rival's seconds over the chosen way's: of the rival that it missed, of the best of those that are
    /// undecided, or of the nearest one.
    std::vector<double> ratios;
    Interval interval;
    std::size_t rival = 0;   ///< which one; meaningless where there is none
    std::size_t rivals = 0;  ///< how many were held against it in rounds of their own
    std::size_t left = 0;    ///< how many are undecided
};

/// Whether a way, chosen beforehand, reaches `bound` of the rate of every other way. Rivals that the rounds
/// in hand leave open are measured anew beside it (what made them rivals may be luck, and the luck must not
/// count), each until the interval of its ratio is on one side of the bound, or the limit is reached.
/// @param times of all ways; what is measured of those that had dropped out is added
Judgement judge_choice(Times& times, std::size_t chosen, double bound, const Deciding& limit,
                       const Once& one);

/// One way held against another.
struct Pair {
    std::size_t one;
    std::size_t other;
};
/// Makes further rounds of those pairs of which it is not known on which side of the bound the median of the
/// other's seconds over the one's is, the two of a pair always beside each other, until it is or the limit is
/// reached. What is left of the time goes to the pair on which least was spent: slow ones leave quick ones as
/// much.
/// @param times of all ways; what is measured is added
/// @return the pairs that the limit left open
std::vector<Pair> decide_pairs(Times& times, const std::vector<Pair>& pairs, double bound,
                               const Deciding& limit, const Once& one);

/// How one way compares with the best of several, round by round, without the luck of the lowest of many
/// medians: for odd rounds the best is the one with the lowest median of the even ones, and the other way
/// round. Above 1 the one is the faster.
/// @param one seconds by round; @param others the same of each rival; those with fewer rounds than the one
/// have lost and count only where all have
/// @return a ratio for each round @throws std::invalid_argument when there are not two rounds, or no rival
std::vector<double> against_best(const std::vector<double>& one, const Times& others);

}  // namespace file_io
