// The report of the program data_loading.
#include <algorithm>

#include "lib/base/statistics.h"
#include "programs/data_loading/data_loading.h"

namespace data_loading {

void DataLoading::report(MemorySpace& space, const Kind& kind, const std::vector<Trial>& trials,
                         const file_io::Times& times) {
    tenken::Document& document = run_->document;
    const double samples = static_cast<double>(samples_of(kind)) * static_cast<double>(epochs_);
    double bytes = 0;
    for (std::size_t i = 0; i < samples_of(kind); ++i) bytes += static_cast<double>(kind.bytes_of(i));
    bytes *= static_cast<double>(epochs_);
    const tenken::Limit none = tenken::Limit::unknown("set by the step, the file system and the memory");
    std::size_t best = 0;
    std::vector<double> medians;
    for (std::size_t i = 0; i < trials.size(); ++i) {
        medians.push_back(tenken::order_statistics(times[i], tenken::Direction::lower).median);
        if (medians[i] < medians[best]) best = i;
    }
    const auto metric = [&](const std::string& name, const std::string& unit, const Trial& trial) {
        tenken::Metric one;
        one.name = name;
        one.subject = space.subject();
        one.unit = unit;
        one.at = {{"kind", tenken::Json(kind.name)},
                  {"io_config", tenken::Json(trial.config.name())},
                  {"prefetch", tenken::Json(static_cast<std::uint64_t>(trial.ahead))}};
        return one;
    };
    for (std::size_t i = 0; i < trials.size(); ++i) {
        const Trial& trial = trials[i];
        tenken::Metric rate = metric("samples", "samples/s", trial);
        for (double seconds : times[i]) rate.samples.push_back(samples / seconds);
        document.add(rate, none);
        if (i == best) {
            rate.name = "best";
            document.add(rate, none);
        }
        tenken::Metric speed = metric("rate", "GB/s", trial);
        speed.samples = tenken::giga_per_second(bytes, times[i]);
        document.add(speed, space.link_limit());
        tenken::Metric waits = metric("waits", "%", trial);
        waits.direction = tenken::Direction::lower;
        waits.samples = trial.waits;
        document.add(waits, none);
        const auto line = [&](const std::string& what, std::uint64_t count, const std::string& first) {
            tenken::Check check;
            check.what = kind.name + " by " + trial.config.name() + ", " + std::to_string(trial.ahead) +
                         " batches ahead, on " + space.name() + ", " + what;
            check.error = static_cast<double>(count);
            check.detail = first;
            document.add(check);
        };
        line("samples whose checksum differs", trial.wrong, trial.first_wrong);
        line("samples not read once an epoch", trial.misread, trial.first_misread);
    }
    // The gain of reading ahead: same method, same round.
    for (std::size_t serial = 0; serial < trials.size(); ++serial) {
        if (trials[serial].ahead != 0) continue;
        for (std::size_t i = 0; i < trials.size(); ++i) {
            if (trials[i].ahead == 0 || !(trials[i].config == trials[serial].config)) continue;
            tenken::Metric gain = metric("gain", "1", trials[i]);
            gain.samples = file_io::pair_ratios(times[i], times[serial]);
            document.add(gain, tenken::Limit::unknown("a ratio"));
        }
    }
}

}  // namespace data_loading
