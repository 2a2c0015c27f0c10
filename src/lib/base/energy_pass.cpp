#include "lib/base/energy_pass.h"

#include <cstdlib>
#include <vector>

#include "lib/base/clock.h"

namespace tenken {

bool measured_by_all(const Meter* meter, Ranks& ranks) {
    return ranks.largest({meter == nullptr ? 1.0 : 0.0}).front() == 0;
}

EnergyFound measure_energy(Meter& meter, Ranks& ranks, double min_seconds, const EnergyPass& pass) {
    EnergyFound found;
    found.counted_elsewhere = meter.of_node() && ranks.local_rank() > 0;
    HostEnergyMeter beside;
    if (!meter.of_node() && ranks.local_rank() == 0) beside.start();
    if (!found.counted_elsewhere) meter.start();
    const double begin = now_seconds();
    int runs = 0;
    double running = 0;
    for (bool enough = false; !enough; ++runs) {
        running += pass.run();
        enough = -ranks.largest({-(now_seconds() - begin)}).front() >= min_seconds;
    }
    if (!found.counted_elsewhere) found.reading = meter.stop();
    found.beside = beside.stop();
    found.whole_module = beside.module();
    found.seconds = running / runs;
    return found;
}

void add_energy(Document& document, Ranks& ranks, const EnergyPass& pass, const EnergyFound& found,
                const Metric& made) {
    const std::vector<std::string> all = ranks.gather(found.reading ? Json(found.reading->watts).dump()
                                                      : found.counted_elsewhere ? "0"
                                                                                : "");
    if (!ranks.speaks()) return;
    Metric first = made;
    first.name = "power";
    const std::string where = first.id().substr(first.name.size() + 1);
    double watts = 0;
    for (const std::string& one : all) {
        if (one.empty()) {
            document.path("energy_left_out." + where, "a sensor could not be read");
            return;
        }
        watts += std::atof(one.c_str());
    }
    found.reading->describe(document, "energy." + where);
    if (found.beside) found.beside->describe(document, "energy." + where + ".host");
    if (found.whole_module) found.whole_module->describe(document, "energy." + where + ".module");
    // A pass includes the gaps between runs, so power is that of the pass, and time that of a run.
    first.samples = {watts};
    first.counts = {{pass.counted, pass.amount}, {"seconds", found.seconds}};
    document.add(first);
}

}  // namespace tenken
