// The report of snapshot_io: rates and times by size, ratios of layouts and methods.
#include <algorithm>
#include <sstream>

#include "lib/base/statistics.h"
#include "programs/snapshot_io/snapshot_io.h"

namespace snapshot_io {

void SnapshotIo::report(MemorySpace& space, const std::vector<SnapshotConfig>& configs,
                        const std::vector<std::vector<Parts>>& parts) {
    tenken::Document& document = run_->document;
    const double bytes = static_cast<double>(particles_) * file_io::particle_bytes;
    const std::string n = std::to_string(particles_);
    if (!cold_ && cached_min_ < 1) document.path("not_cached.n" + n, 1 - cached_min_);
    if (cold_ && cold_max_ > 0) document.path("still_cached.n" + n, cold_max_);
    for (std::size_t i = 0; i < configs.size(); ++i) {
        tenken::Metric rate = metric(space, configs[i].write ? "write" : "read", configs[i]);
        tenken::Metric around = metric(space, configs[i].write ? "write_around" : "read_around", configs[i]);
        around.unit = "ms";
        around.direction = tenken::Direction::lower;
        for (const Parts& one : parts[i]) {
            rate.samples.push_back(bytes / (one.data + one.sync) / 1e9);
            around.samples.push_back((one.open + one.close) * 1e3);
        }
        document.add(rate, space.link_limit());
        document.add(around, tenken::Limit::unknown("no limit is known for opening and closing a file"));
    }
    // Round by round: a disturbance affects both.
    const auto compare = [&](std::size_t i, std::size_t j, const std::string& name,
                             const std::string& without) {
        tenken::Metric ratio = metric(space, (configs[i].write ? "write_" : "read_") + name, configs[i]);
        ratio.unit = "1";
        ratio.at.erase(std::find_if(ratio.at.begin(), ratio.at.end(),
                                    [&](const std::pair<std::string, tenken::Json>& coordinate) {
                                        return coordinate.first == without;
                                    }));
        for (std::size_t r = 0; r < std::min(parts[i].size(), parts[j].size()); ++r) {
            ratio.samples.push_back((parts[j][r].data + parts[j][r].sync) /
                                    (parts[i][r].data + parts[i][r].sync));
        }
        document.add(ratio, tenken::Limit::unknown("a ratio"));
    };
    for (std::size_t i = 0; i < configs.size(); ++i) {
        for (std::size_t j = 0; j < configs.size(); ++j) {
            if (configs[i].write != configs[j].write) continue;
            const bool same_layout = configs[i].layout == configs[j].layout;
            const bool same_method = configs[i].method == configs[j].method;
            if (same_method && configs[i].layout == Layout::hyperslab && !same_layout) {
                compare(i, j, "hyperslab_over_asis", "layout");
            }
            if (same_layout && configs[i].method == "gds" && configs[j].method == "posix") {
                compare(i, j, "gds_over_posix", "method");
            }
        }
    }
}

void SnapshotIo::tell_open(MemorySpace& space, const std::vector<SnapshotConfig>& configs,
                           const file_io::Times& times, const std::vector<file_io::Pair>& open) {
    if (open.empty()) return;
    std::ostringstream text;
    text.precision(3);
    for (const file_io::Pair& pair : open) {
        const std::vector<double> ratios = file_io::pair_ratios(times[pair.one], times[pair.other]);
        const file_io::Interval interval = file_io::median_interval(ratios);
        text << (text.tellp() > 0 ? "; " : "") << (configs[pair.one].write ? "write" : "read") << " by "
             << configs[pair.one].method << " " << interval.median << " (" << interval.low << " to "
             << interval.high << ") in " << ratios.size() << " pairs";
    }
    run_->document.path("layouts_open.n" + std::to_string(particles_) + "." + space.name(), text.str());
}

tenken::Metric SnapshotIo::metric(MemorySpace& space, const std::string& name,
                                  const SnapshotConfig& config) const {
    tenken::Metric one;
    one.name = name;
    one.subject = space.subject();
    one.unit = "GB/s";
    one.at = {{"layout", tenken::Json(name_of(config.layout))},
              {"method", tenken::Json(config.method)},
              {"particles", tenken::Json(particles_)}};
    return one;
}

}  // namespace snapshot_io
