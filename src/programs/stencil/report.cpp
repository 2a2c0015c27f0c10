// The report of stencil in addition to its measurements.
#include "lib/base/placement.h"
#include "programs/stencil/stencil.h"

namespace stencil {

tenken::Metric Stencil::metric_of(const std::string& name, const tenken::Subject& subject) const {
    tenken::Metric metric;
    metric.name = name;
    metric.subject = subject;
    metric.clock = on_host() ? "host" : "device";
    return metric;
}

void Stencil::report(tenken::Ranks& ranks) {
    tenken::Document& document = run_->document;
    document.placement = tenken::find_placement();
    document.placement.ranks = ranks_.size();
    document.placement.nodes = ranks_.nodes();
    if (gpu_ && !on_host()) gpu_->report(document, ranks);
}

}  // namespace stencil
