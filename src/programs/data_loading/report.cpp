// The report of the program data_loading.
#include "catalogue/data_loading.h"
#include "programs/data_loading/data_loading.h"

namespace data_loading {

void DataLoading::report(MemorySpace& space, const Kind& kind, const std::vector<Trial>& trials,
                         const file_io::Times& times) {
    tenken::Document& document = run_->document;
    const double samples = static_cast<double>(samples_of(kind)) * static_cast<double>(epochs_);
    double bytes = 0;
    for (std::size_t i = 0; i < samples_of(kind); ++i) bytes += static_cast<double>(kind.bytes_of(i));
    bytes *= static_cast<double>(epochs_);
    const auto metric = [&](const std::string& name, const Trial& trial) {
        tenken::Metric one;
        one.name = name;
        one.subject = space.subject();
        one.at = {{"kind", tenken::Json(kind.name)},
                  {"io_config", tenken::Json(trial.config.name())},
                  {"prefetch", tenken::Json(static_cast<std::uint64_t>(trial.ahead))}};
        return one;
    };
    for (std::size_t i = 0; i < trials.size(); ++i) {
        const Trial& trial = trials[i];
        tenken::Metric loaded = metric("samples", trial);
        loaded.timed(times[i], {{"samples", samples}, {"bytes", bytes}});
        document.add(loaded);
        tenken::Metric waits = metric("waits", trial);
        waits.samples = trial.waits;
        document.add(waits);
        document.add({catalogue::checksum(), loaded.subject, loaded.at, static_cast<double>(trial.wrong),
                      trial.first_wrong});
        document.add({catalogue::once_an_epoch(), loaded.subject, loaded.at,
                      static_cast<double>(trial.misread), trial.first_misread});
    }
}

}  // namespace data_loading
