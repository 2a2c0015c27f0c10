// The report of snapshot_io: times by size, layout and method.
#include <sstream>

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
        std::vector<double> moved;
        std::vector<double> opened;
        for (const Parts& one : parts[i]) {
            moved.push_back(one.data + one.sync);
            opened.push_back(one.open + one.close);
        }
        const std::string key = SnapshotTimes::key(space.name(), configs[i].write, name_of(configs[i].layout),
                                                   configs[i].method, particles_);
        times_.add(key, moved);
        rate.timed(moved, {{"bytes", bytes}});
        around.timed(opened);
        document.add(rate);
        document.add(around);
        if (other_file_.empty()) continue;
        tenken::Metric another = metric(space, rate.name + "_other", configs[i]);
        another.timed(other_.of(key), {{"bytes", bytes}});
        document.add(another);
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
    one.at = {{"layout", tenken::Json(name_of(config.layout))},
              {"method", tenken::Json(config.method)},
              {"particles", tenken::Json(particles_)}};
    return one;
}

}  // namespace snapshot_io
