// Comparing ways to do the same thing on a machine that is not quiet: in rounds, each way once a round in
// random order, so that what disturbs one disturbs all; those far behind drop out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace file_io {

/// How long to go on.
struct Rounds {
    long least = 5;      ///< rounds that are made in any case, besides the first, which only warms up
    long most = 100;     ///< rounds that are made at most
    double seconds = 1;  ///< after these no further round begins
    /// From three rounds on those whose fastest round took longer than 1/keep of the lowest median drop out,
    /// for good. 0: none does.
    double keep = 0.6;
    std::uint32_t seed = 1;  ///< of the order
};

/// Calls one(i, round) for i in [0, count), round 0 being the warm-up, and keeps the seconds that it returns.
/// @return for each the seconds of rounds 1, 2, ..., in their order; at least three each
std::vector<std::vector<double>> run_rounds(std::size_t count, const Rounds& rounds,
                                            const std::function<double(std::size_t, long)>& one);

/// The first of these medians that is within a fraction `tie` of the lowest, that of `preferred` if it is:
/// between equally good ones the choice must not change from size to size.
/// @param preferred an index, or the number of medians where none is preferred
std::size_t choose_lowest(const std::vector<double>& medians, std::size_t preferred, double tie);

/// How one way compares with the best of several, round by round, without the luck of the lowest of many
/// medians: for odd rounds the best is the one with the lowest median of the even ones, and the other way
/// round. Above 1 the one is the faster.
/// @param one seconds by round; @param others the same of each rival; those with fewer rounds than the one
/// have lost and count only where all have
/// @return a ratio for each round @throws std::invalid_argument when there are not two rounds, or no rival
std::vector<double> against_best(const std::vector<double>& one,
                                 const std::vector<std::vector<double>>& others);

}  // namespace file_io
