#include "lib/file_io/rounds.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/statistics.h"

namespace file_io {

namespace {

/// Every second value, starting from the first or the second.
std::vector<double> half(const std::vector<double>& values, std::size_t from) {
    std::vector<double> part;
    for (std::size_t i = from; i < values.size(); i += 2) part.push_back(values[i]);
    return part;
}

/// Number of pairs of a comparison before it is evaluated: the smallest number whose range is an interval of
/// 99 %.
constexpr long fewest_pairs = 8;
/// Rivals of a configuration for further rounds, likely ones first.
constexpr std::size_t max_rivals = 4;

bool is_look(long round) {
    long look = fewest_pairs;
    while (look < round) look += look / 2;
    return look == round;
}

/// Places the members of a group next to each other, in the order of their first members.
void gather(std::vector<std::size_t>& order, const std::vector<std::size_t>& groups) {
    std::vector<std::size_t> place(groups.size(), order.size());
    for (std::size_t i = order.size(); i-- > 0;) place[groups[order[i]]] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t i, std::size_t j) { return place[groups[i]] < place[groups[j]]; });
}

bool contains(const std::vector<std::size_t>& configs, std::size_t config) {
    return std::find(configs.begin(), configs.end(), config) != configs.end();
}

/// The configurations in the order of their medians.
std::vector<std::size_t> by_median(const Times& times, std::vector<std::size_t> configs) {
    std::sort(configs.begin(), configs.end(), [&](std::size_t i, std::size_t j) {
        return tenken::median(times[i]) < tenken::median(times[j]);
    });
    return configs;
}

/// Among these configurations, measured in the same rounds, the one with the lowest median, followed by those
/// that may be faster by more than `tie`, likely ones first; empty if there is no such rival.
std::vector<std::size_t> may_be_faster(const Times& times, const std::vector<std::size_t>& configs,
                                       double tie) {
    const std::vector<std::size_t> ordered = by_median(times, configs);
    std::vector<std::size_t> on;
    for (std::size_t i : ordered) {
        if (i == ordered.front() ||
            median_interval(pair_ratios(times[ordered.front()], times[i])).low < 1 - tie) {
            on.push_back(i);
        }
    }
    if (on.size() < 2) on.clear();
    return on;
}

/// The configurations that did not drop out: those with the maximum number of rounds.
std::vector<std::size_t> survivors(const Times& times) {
    std::size_t maximum = 0;
    for (const std::vector<double>& one : times) maximum = std::max(maximum, one.size());
    std::vector<std::size_t> configs;
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (times[i].size() == maximum) configs.push_back(i);
    }
    return configs;
}

/// One more round of each configuration that dropped out: three consecutive bad rounds can have a single,
/// temporary cause. @return those that are now fast enough
std::vector<std::size_t> second_look(Times& times, const Once& one,
                                     const std::function<bool(double)>& wanted) {
    const std::vector<std::size_t> alive = survivors(times);
    std::vector<std::size_t> back;
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (contains(alive, i)) continue;
        const double seconds = one(i, 1);
        times[i].push_back(seconds);
        if (wanted(seconds)) back.push_back(i);
    }
    return back;
}

}  // namespace

Interval median_interval(std::vector<double> samples, double beyond) {
    Interval interval;
    interval.median = tenken::median(samples);
    std::sort(samples.begin(), samples.end());
    const std::size_t n = samples.size();
    // The k-th value from each end, with the largest k for which the binomial tail beyond it is small enough.
    const double count = static_cast<double>(n);
    double part = 0;
    std::size_t k = 0;
    while (2 * (k + 1) <= n) {
        const double tosses = static_cast<double>(k);
        part += std::exp(std::lgamma(count + 1) - std::lgamma(tosses + 1) - std::lgamma(count - tosses + 1) -
                         count * std::log(2.0));
        if (part > beyond) break;
        ++k;
    }
    const std::size_t from_end = std::max<std::size_t>(k, 1) - 1;
    interval.low = samples[from_end];
    interval.high = samples[n - 1 - from_end];
    return interval;
}

bool surely_below(const std::vector<double>& samples, double bound) {
    // With fewer samples there is no interval of this confidence.
    return std::pow(0.5, static_cast<double>(samples.size())) <= surely &&
           median_interval(samples, surely).high < bound;
}

std::vector<double> pair_ratios(const std::vector<double>& one, const std::vector<double>& other) {
    std::vector<double> ratios(std::min(one.size(), other.size()));
    for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] = other[i] / one[i];
    return ratios;
}

Times run_rounds(std::size_t count, const Rounds& rounds, const Once& one) {
    Times seconds(count);
    std::vector<std::size_t> alive(count);
    std::iota(alive.begin(), alive.end(), std::size_t{0});
    std::mt19937 order(rounds.seed);
    if (rounds.warm_up) {
        for (std::size_t i : alive) one(i, 0);
    }
    const double begin = tenken::now_seconds();
    for (long round = 1; round <= rounds.maximum; ++round) {
        if (round > rounds.minimum && tenken::now_seconds() - begin > rounds.seconds) break;
        std::shuffle(alive.begin(), alive.end(), order);
        if (!rounds.groups.empty()) gather(alive, rounds.groups);
        for (std::size_t i : alive) seconds[i].push_back(one(i, round));
        if (rounds.retain && is_look(round)) {
            alive = rounds.retain(seconds, alive);
            if (alive.empty()) break;
        }
        if (round < 3 || rounds.keep <= 0) continue;
        double lowest = tenken::median(seconds[alive.front()]);
        for (std::size_t i : alive) lowest = std::min(lowest, tenken::median(seconds[i]));
        alive.erase(std::remove_if(alive.begin(), alive.end(),
                                   [&](std::size_t i) {
                                       // By its fastest round, since disturbances only make a configuration
                                       // slower.
                                       return *std::min_element(seconds[i].begin(), seconds[i].end()) *
                                                  rounds.keep >
                                              lowest;
                                   }),
                    alive.end());
    }
    return seconds;
}

Finalists find_fastest(Times& times, double tie, const Deciding& limit, const Once& one) {
    Finalists finalists;
    const std::vector<std::size_t> alive = survivors(times);
    const std::size_t leader = by_median(times, alive).front();
    const double behind = tenken::median(times[leader]) / Rounds().keep;
    std::vector<std::size_t> open = may_be_faster(times, alive, tie);
    open.resize(std::min(open.size(), 1 + max_rivals));
    const std::vector<std::size_t> back =
        second_look(times, one, [&](double seconds) { return seconds < behind; });
    if (open.empty() && back.empty()) {
        finalists.configs = alive;
        for (std::size_t config : alive) finalists.times.push_back(times[config]);
        return finalists;
    }
    if (open.empty()) open.push_back(leader);
    Times& final = finalists.times;
    for (std::size_t config : open) final.push_back(times[config]);
    if (!back.empty()) {
        open.insert(open.end(), back.begin(), back.end());
        final.assign(open.size(), {});
    }
    std::vector<std::size_t> on(open.size());
    std::iota(on.begin(), on.end(), std::size_t{0});
    Rounds rounds;
    rounds.warm_up = false;
    rounds.minimum = back.empty() ? 0 : fewest_pairs;
    rounds.maximum = std::max(limit.maximum, rounds.minimum);
    rounds.seconds = limit.seconds;
    rounds.seed = limit.seed;
    rounds.keep = 0;
    rounds.retain = [&](const Times&, const std::vector<std::size_t>&) {
        const std::vector<std::size_t> still = may_be_faster(final, on, tie);
        if (!still.empty()) on = still;
        return still;
    };
    run_rounds(open.size(), rounds, [&](std::size_t i, long round) {
        const double seconds = one(open[i], round);
        times[open[i]].push_back(seconds);
        final[i].push_back(seconds);
        return seconds;
    });
    // Among those that remained to the end.
    Times stayed;
    for (std::size_t i : on) {
        finalists.configs.push_back(open[i]);
        stayed.push_back(final[i]);
    }
    finalists.times = stayed;
    return finalists;
}

std::size_t choose_fastest(const Finalists& finalists, std::size_t preferred, double tie) {
    const std::vector<std::size_t>& configs = finalists.configs;
    if (configs.empty()) throw std::invalid_argument("choose_fastest: nothing to choose from");
    std::vector<Interval> intervals;
    for (const std::vector<double>& one : finalists.times) intervals.push_back(median_interval(one));
    double maximum = intervals.front().median;
    for (const Interval& one : intervals) maximum = std::min(maximum, one.median);
    maximum *= 1 + tie;
    std::size_t best = configs.size();
    for (std::size_t i = 0; i < configs.size(); ++i) {
        if (intervals[i].median > maximum) continue;
        if (configs[i] == preferred) return preferred;
        if (best == configs.size() || intervals[i].high < intervals[best].high) best = i;
    }
    return configs[best];
}

namespace {

/// A chosen configuration and some rivals in separate rounds.
class Duel {
  public:
    /// @param ways the chosen one first
    Duel(const std::vector<std::size_t>& configs, double bound) : ways_(configs), bound_(bound) {
        for (std::size_t i = 1; i < configs.size(); ++i) open_.push_back(i);
    }

    /// @return the number of rounds
    long fight(const Deciding& limit, const Once& one) {
        Rounds rounds;
        rounds.warm_up = false;
        rounds.minimum = fewest_pairs;
        rounds.maximum = std::max(limit.maximum, fewest_pairs);
        rounds.seconds = limit.seconds;
        rounds.seed = limit.seed;
        rounds.keep = 0;
        rounds.retain = [&](const Times& fresh, const std::vector<std::size_t>&) {
            look(fresh);
            std::vector<std::size_t> on;
            if (missed_ != 0 || open_.empty()) return on;
            on = open_;
            on.push_back(0);
            return on;
        };
        times_ =
            run_rounds(ways_.size(), rounds, [&](std::size_t i, long round) { return one(ways_[i], round); });
        if (missed_ == 0) look(times_);  // the limit may be between two evaluations
        return static_cast<long>(times_[0].size());
    }

    /// The current result, if it is worse than the previous one.
    void enter(Judgement& judgement) const {
        typedef Judgement::Outcome Outcome;
        std::vector<std::size_t> those = open_;
        if (missed_ != 0) {
            those = {missed_};
        } else if (open_.empty()) {
            for (std::size_t i = 1; i < ways_.size(); ++i) those.push_back(i);
        }
        const auto median = [&](std::size_t i) { return median_interval(ratios(i)).median; };
        const std::size_t nearest = *std::min_element(
            those.begin(), those.end(), [&](std::size_t i, std::size_t j) { return median(i) < median(j); });
        std::vector<double> found = ratios(nearest);
        if (missed_ == 0 && open_.size() > 1) {
            Times left;
            for (std::size_t i : open_) left.push_back(times_[i]);
            found = against_best(times_[0], left);
        }
        judgement.left += missed_ != 0 ? 0 : open_.size();
        const bool worse = judgement.ratios.empty() ||
                           median_interval(found).median < median_interval(judgement.ratios).median;
        const bool known = missed_ == 0 && !surely_below(found, bound_);
        if (!known) {
            judgement.outcome = Outcome::missed;
        } else if (!open_.empty()) {
            // Undecided rivals are more informative than those compared before.
            if (judgement.outcome == Outcome::undecided && !worse) return;
            judgement.outcome = Outcome::undecided;
        } else if (judgement.outcome == Outcome::undecided || !worse) {
            return;
        }
        judgement.ratios = found;
        judgement.rival = ways_[nearest];
    }

  private:
    std::vector<double> ratios(std::size_t i) const { return pair_ratios(times_[0], times_[i]); }

    void look(const Times& fresh) {
        std::vector<std::size_t> still;
        double lowest = bound_;
        for (std::size_t i : open_) {
            const std::vector<double> pairs = pair_ratios(fresh[0], fresh[i]);
            const Interval interval = median_interval(pairs);
            if (interval.low < bound_) still.push_back(i);
            if (interval.median >= lowest || !surely_below(pairs, bound_)) continue;
            lowest = interval.median;
            missed_ = i;
        }
        open_ = still;
    }

    std::vector<std::size_t> ways_;
    double bound_;
    std::vector<std::size_t> open_;  ///< positions in ways_ of undecided rivals
    std::size_t missed_ = 0;         ///< position of the rival that won; 0: none
    Times times_;
};

}  // namespace

Judgement judge_choice(Times& times, std::size_t chosen, double bound, const Deciding& limit,
                       const Once& one) {
    Judgement judgement;
    // Configurations that dropped out are slower than one that did not, unless a second measurement
    // contradicts it.
    std::vector<std::size_t> rivals = survivors(times);
    const double of_chosen = tenken::median(times[chosen]);
    const std::vector<std::size_t> back =
        second_look(times, one, [&](double seconds) { return seconds < bound * of_chosen; });
    rivals.erase(std::remove(rivals.begin(), rivals.end(), chosen), rivals.end());
    if (rivals.empty()) {
        for (std::size_t i = 0; i < times.size(); ++i) {
            if (i != chosen) rivals.push_back(i);
        }
    }
    std::vector<std::pair<double, std::size_t>> suspects;  // by the ratio in the available rounds
    for (std::size_t i : rivals) {
        const std::vector<double> ratios = pair_ratios(times[chosen], times[i]);
        const Interval interval = median_interval(ratios);
        if (interval.low < bound && !contains(back, i)) suspects.emplace_back(interval.median, i);
        if (!judgement.ratios.empty() && interval.median >= judgement.interval.median) continue;
        judgement.outcome = Judgement::Outcome::held;
        judgement.rival = i;
        judgement.ratios = ratios;
        judgement.interval = interval;
    }
    for (std::size_t i : back) {
        if (i != chosen) suspects.emplace_back(times[i].back() / of_chosen, i);
    }
    if (suspects.empty()) return judgement;  // all are no faster, with confidence, or there are none
    std::sort(suspects.begin(), suspects.end());
    judgement.rivals = suspects.size();
    judgement.outcome = Judgement::Outcome::held;
    judgement.ratios.clear();
    const double end = tenken::now_seconds() + limit.seconds;
    long rounds_left = limit.maximum;
    for (std::size_t from = 0; from < suspects.size(); from += max_rivals) {
        std::vector<std::size_t> configs = {chosen};
        for (std::size_t i = from; i < std::min(from + max_rivals, suspects.size()); ++i) {
            configs.push_back(suspects[i].second);
        }
        if (from > 0 && (tenken::now_seconds() > end || rounds_left <= 0)) {
            // No time is left for these, so only the available rounds are used.
            judgement.left += suspects.size() - from;
            judgement.outcome = Judgement::Outcome::undecided;
            if (suspects[from].first < bound && suspects[from].first < tenken::median(judgement.ratios)) {
                judgement.rival = configs[1];
                judgement.ratios = pair_ratios(times[chosen], times[configs[1]]);
            }
            break;
        }
        Deciding rest = limit;
        rest.seconds = end - tenken::now_seconds();
        rest.maximum = rounds_left;
        Duel duel(configs, bound);
        rounds_left -= duel.fight(rest, one);
        duel.enter(judgement);
        if (judgement.outcome == Judgement::Outcome::missed) break;
    }
    judgement.interval = median_interval(judgement.ratios);
    return judgement;
}

std::vector<Pair> decide_pairs(Times& times, const std::vector<Pair>& pairs, double bound,
                               const Deciding& limit, const Once& one) {
    const auto is_open = [&](const Pair& pair) {
        const std::vector<double> ratios = pair_ratios(times[pair.one], times[pair.other]);
        return median_interval(ratios).low < bound && !surely_below(ratios, bound);
    };
    std::vector<Pair> open;
    std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(open), is_open);
    if (open.empty()) return open;
    struct Account {
        Pair pair;
        long rounds;
        double seconds;  ///< spent on it
    };
    std::vector<Account> at_work;
    for (const Pair& pair : open) {
        if (limit.maximum > 0) at_work.push_back({pair, 0, 0});
    }
    std::mt19937 order(limit.seed);
    const double begin = tenken::now_seconds();
    double now = begin;
    while (!at_work.empty() && now - begin < limit.seconds) {
        const std::size_t next = static_cast<std::size_t>(
            std::min_element(at_work.begin(), at_work.end(),
                             [](const Account& a, const Account& b) { return a.seconds < b.seconds; }) -
            at_work.begin());
        Account& account = at_work[next];
        std::size_t configs[] = {account.pair.one, account.pair.other};
        std::shuffle(std::begin(configs), std::end(configs), order);
        ++account.rounds;
        for (std::size_t config : configs) times[config].push_back(one(config, account.rounds));
        const double before = now;
        now = tenken::now_seconds();
        account.seconds += now - before;
        if (account.rounds < limit.maximum && !(is_look(account.rounds) && !is_open(account.pair))) continue;
        at_work.erase(at_work.begin() + static_cast<std::ptrdiff_t>(next));
    }
    open.erase(std::remove_if(open.begin(), open.end(), [&](const Pair& pair) { return !is_open(pair); }),
               open.end());
    return open;
}

std::vector<double> against_best(const std::vector<double>& one, const Times& others) {
    std::size_t rounds = one.size();
    const bool some_left = std::any_of(others.begin(), others.end(), [&](const std::vector<double>& other) {
        return other.size() >= one.size();
    });
    for (const std::vector<double>& other : others) {
        if (!some_left) rounds = std::min(rounds, other.size());
    }
    if (rounds < 2 || others.empty()) throw std::invalid_argument("against_best: nothing to compare with");
    std::vector<double> ratios(rounds);
    for (std::size_t from : {std::size_t{0}, std::size_t{1}}) {
        const std::vector<double>* best = nullptr;
        double lowest = 0;
        for (const std::vector<double>& other : others) {
            if (other.size() < rounds) continue;
            const std::vector<double> common(other.begin(),
                                             other.begin() + static_cast<std::ptrdiff_t>(rounds));
            const double median = tenken::median(half(common, 1 - from));
            if (best != nullptr && median >= lowest) continue;
            best = &other;
            lowest = median;
        }
        for (std::size_t i = from; i < rounds; i += 2) ratios[i] = (*best)[i] / one[i];
    }
    return ratios;
}

}  // namespace file_io
