// The report of stencil in addition to its measurements.
#include "lib/base/placement.h"
#include "programs/stencil/stencil.h"

namespace stencil {

tenken::Metric Stencil::metric_of(const std::string& name, const std::string& unit,
                                  const tenken::Subject& subject) const {
    tenken::Metric metric;
    metric.name = name;
    metric.unit = unit;
    metric.subject = subject;
    metric.clock = on_host() ? "host" : "device";
    return metric;
}

void Stencil::report_gain() {
    double host = 0;
    for (const auto& rate : rates_) host = rate.first == "host" ? rate.second : host;
    for (const auto& rate : rates_) {
        if (host <= 0 || rate.first == "host") continue;
        tenken::Metric metric = metric_of("gain", "%", all());
        metric.statistic = tenken::Statistic::total;
        metric.at = {{"exchange", tenken::Json(rate.first)}};
        metric.samples = {100 * (rate.second / host - 1)};
        run_->document.add(metric, tenken::Limit::unknown("a ratio of two rates"));
    }
}

void Stencil::report() {
    tenken::Document& document = run_->document;
    document.placement = tenken::find_placement();
    document.placement.ranks = ranks_.size();
    document.placement.nodes = ranks_.nodes();
    if (gpu_ && !on_host()) gpu_->report(document);
}

}  // namespace stencil
