// The report of storage_map: each configuration, the best of them, the map, and the outcome of a choice by
// it.
#include <algorithm>
#include <sstream>

#include "catalogue/storage_map.h"
#include "lib/base/statistics.h"
#include "programs/storage_map/storage_map.h"

namespace storage_map {

namespace {

bool is_cufile(const std::string& method) {
    return method == "gds" || method.compare(0, 6, "cufile") == 0;
}

/// A configuration that took this many times as long as the best at two sizes, with whole blocks and all
/// threads, is not tried again.
constexpr double hopeless = 2.5;

}  // namespace

void StorageMapProgram::add_check(MemorySpace& space, const std::string& situation, const IoConfig& config,
                                  std::uint64_t bytes, const std::string& path,
                                  const file_io::Mismatch& mismatch) {
    tenken::Check check = file_io::check_of(mismatch, catalogue::words(), path, 0, mismatch.first);
    check.subject = space.subject();
    check.at = {{"metric", tenken::Json(situation)},
                {"bytes", tenken::Json(bytes)},
                {"io_config", tenken::Json(config.name())}};
    run_->document.add(check);
}

void StorageMapProgram::note_cache(const std::string& situation, std::uint64_t bytes) {
    const std::string size = file_io::short_bytes(bytes);
    if (situation == "read_cached" && lowest_cached_ < 1) {
        run_->document.path("not_cached." + size, 1 - lowest_cached_);
    }
    if (situation == "read_cold" && highest_cold_ > 0) {
        run_->document.path("still_cached." + size, highest_cold_);
    }
}

tenken::Metric StorageMapProgram::metric(MemorySpace& space, const std::string& name,
                                         std::uint64_t bytes) const {
    tenken::Metric one;
    one.name = name;
    one.subject = space.subject();
    one.at = {{"bytes", tenken::Json(bytes)}};
    return one;
}

void StorageMapProgram::evaluate(MemorySpace& space, const std::string& situation, std::uint64_t bytes,
                                 const std::vector<IoConfig>& tried, const std::vector<IoConfig>& candidates,
                                 const file_io::Times& seconds, const file_io::Finalists& finalists) {
    Known& known = known_[situation];
    std::vector<double> medians;
    for (std::size_t i = 0; i < tried.size(); ++i) {
        tenken::Metric one = metric(space, situation, bytes);
        one.at.push_back({"io_config", tenken::Json(tried[i].name())});
        one.timed(seconds[i], {{"bytes", static_cast<double>(bytes)}});
        run_->document.add(one);
        medians.push_back(tenken::median(seconds[i]));
    }
    const double lowest = *std::min_element(medians.begin(), medians.end());
    for (const IoConfig& one : candidates) {
        const auto at = std::find(tried.begin(), tried.end(), one);
        if (at == tried.end()) continue;  // at this size another one was chosen
        int& behind = known.behind[one.name()];
        behind = medians[static_cast<std::size_t>(at - tried.begin())] > hopeless * lowest ? behind + 1 : 0;
    }
    // The choice at the previous size is kept while it is equally good, in its form at this size.
    std::size_t preferred = tried.size();
    for (const IoConfig& one : candidates) {
        if (one.name() != known.preferred) continue;
        const auto at = std::find(tried.begin(), tried.end(), one.fitted(bytes));
        preferred = static_cast<std::size_t>(at - tried.begin());
    }
    // Run B has no finalists: its best configuration is the one with the lowest median.
    const std::size_t best =
        finalists.configs.empty()
            ? static_cast<std::size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin())
            : file_io::choose_fastest(finalists, preferred, tie);
    for (const IoConfig& one : candidates) {
        if (one.fitted(bytes) == tried[best] && (best != preferred || one.name() == known.preferred)) {
            known.preferred = one.name();
            break;
        }
    }
    map_.add(
        {situation, bytes, IoConfig::of(known.preferred), static_cast<double>(bytes) / medians[best] / 1e9});
    if (writes_wrong_map()) {
        const std::size_t slowest =
            static_cast<std::size_t>(std::max_element(medians.begin(), medians.end()) - medians.begin());
        wrong_map_.add(
            {situation, bytes, tried[slowest], static_cast<double>(bytes) / medians[slowest] / 1e9});
    }
    // The first configuration of cuFile is that of an application that always uses it.
    always_cufile_ = 0;
    for (std::size_t i = 0; i < tried.size() && always_cufile_ == 0; ++i) {
        if (is_cufile(tried[i].method)) always_cufile_ = medians[i];
    }
}

void StorageMapProgram::tell(MemorySpace& space, const std::string& situation, std::uint64_t bytes,
                             const std::vector<IoConfig>& configs, std::size_t chosen,
                             const file_io::Times& seconds, const file_io::Judgement& judgement) {
    tenken::Document& document = run_->document;
    tenken::Metric by_map = metric(space, "adaptive", bytes);
    by_map.at.push_back({"situation", tenken::Json(situation)});
    by_map.timed(seconds[chosen], {{"bytes", static_cast<double>(bytes)}});
    const file_io::StorageMap::Entry& entry = used_map_.choose(situation, bytes);
    if (entry.bytes == bytes && entry.gbs > 0) by_map.counts.emplace_back("map_gbs", entry.gbs);
    document.add(by_map);
    tenken::Metric ratio = metric(space, "adaptive_over_best", bytes);
    ratio.at = by_map.at;
    ratio.samples = judgement.ratios;
    typedef file_io::Judgement::Outcome Outcome;
    if (judgement.outcome == Outcome::alone) ratio.samples.assign(seconds[chosen].size(), 1.0);
    document.add(ratio);
    if (always_cufile_ > 0) {
        tenken::Metric since = metric(space, "adaptive_over_cufile", bytes);
        since.at = by_map.at;
        since.samples = {always_cufile_ / tenken::median(seconds[chosen])};
        document.add(since);
    }
    document.path("choice." + situation + "." + file_io::short_bytes(bytes) + "." + space.name(),
                  configs[chosen].name() + ": " + text_of(judgement, configs));
}

std::string StorageMapProgram::text_of(const file_io::Judgement& judgement,
                                       const std::vector<IoConfig>& configs) {
    typedef file_io::Judgement::Outcome Outcome;
    if (judgement.outcome == Outcome::alone) return "the only method";
    std::ostringstream text;
    text.precision(3);
    text << (judgement.outcome == Outcome::held     ? "held"
             : judgement.outcome == Outcome::missed ? "behind"
                                                    : "undecided")
         << ", " << judgement.interval.median << " (" << judgement.interval.low << " to "
         << judgement.interval.high << ") of " << configs[judgement.rival].name() << " in "
         << judgement.ratios.size() << (judgement.rivals > 0 ? " pairs" : " rounds");
    if (judgement.rivals > 0) text << ", " << judgement.rivals << " rivals measured again";
    if (judgement.left > 0) text << ", " << judgement.left << " left open";
    return text.str();
}

}  // namespace storage_map
