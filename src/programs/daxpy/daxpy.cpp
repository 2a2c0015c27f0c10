// y = a x + y on the host: a minimal complete benchmark, the example of docs/programs.md.
#include "catalogue/daxpy.h"

#include <algorithm>

#include "lib/base/host.h"
#include "lib/base/host_array.h"
#include "lib/base/program.h"

namespace {

class Daxpy : public tenken::Program {
  public:
    std::string name() const override { return "daxpy"; }
    std::string purpose() const override { return "y = a x + y in double precision on the host."; }

    void options(tenken::Arguments& arguments) override {
        arguments.integer("elements", elements_, 0, std::int64_t{1} << 36,
                          "elements of x and of y; 0: 4 x the last-level cache, at least 16777216");
    }

    void prepare(const tenken::Arguments& arguments) override {
        if (elements_ == 0) {  // a rate from the cache would not be that of the memory
            const auto cache = tenken::describe_host().last_level_cache_bytes;
            elements_ = std::max<std::int64_t>(1 << 24, cache ? static_cast<std::int64_t>(*cache / 2) : 0);
        }
        const std::uint64_t asked = 2 * sizeof(double) * static_cast<std::uint64_t>(elements_);
        const std::uint64_t available = tenken::available_memory_bytes();
        if (asked > available) {
            throw arguments.error("elements", "what fits into memory: requested " +
                                                  tenken::format_bytes(asked) + ", free " +
                                                  tenken::format_bytes(available));
        }
    }

    void measure(tenken::Run& run) override {
        const auto n = static_cast<std::size_t>(elements_);
        tenken::HostArray x(n);
        tenken::HostArray y(n);
        tenken::in_shares(n, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) {
                x[i] = static_cast<double>(i % 1021);
                y[i] = 0;
            }
        });

        std::int64_t runs = 0;
        const auto daxpy = [&] {
            ++runs;
            tenken::in_shares(n, [&](std::size_t begin, std::size_t end) {
                for (std::size_t i = begin; i < end; ++i) y[i] += 0.5 * x[i];
            });
        };
        tenken::warm_up(run.warmup_seconds, daxpy);
        const std::vector<double> seconds = tenken::time_each(run.repetitions, daxpy);

        run.document.build.backends = {"host"};
        run.document.placement = tenken::find_placement();
        run.document.placement.numa_nodes_of_memory = tenken::numa_nodes_of(y.data(), y.bytes());
        tenken::Metric metric;
        metric.name = "daxpy";
        metric.timed(seconds, {{"bytes", 24.0 * static_cast<double>(n)}});  // x and y are read, y is written
        run.document.add(metric);

        if (run.fault == tenken::Fault::element) y[n - 1] = tenken::with_flipped_bit(y[n - 1]);
        tenken::ErrorScan errors(catalogue::y().tolerance);  // halves of small whole numbers: exact
        tenken::scan(errors, y.data(), n, 0, catalogue::y().tolerance, [&](std::size_t i) {
            return 0.5 * static_cast<double>(i % 1021) * static_cast<double>(runs);
        });
        run.document.add(errors.check(catalogue::y()));
    }

  private:
    std::int64_t elements_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Daxpy daxpy;
    return tenken::run_program(daxpy, argc, argv);
}
