// STREAM: sustainable memory bandwidth by copy, scale, add, triad and dot.
#include "catalogue/stream.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/energy_pass.h"
#include "lib/base/parallel_for_devices.h"
#include "lib/base/program.h"
#include "programs/stream/backend.h"

namespace stream {

namespace {

struct KernelFacts {
    const char* name;
    double arrays;  ///< bytes per repetition as counted by STREAM: each operand once, no write allocate
};
constexpr KernelFacts facts[kernel_count] = {{"copy", 2}, {"scale", 2}, {"add", 3}, {"triad", 3}, {"dot", 2}};

/// With s = scalar a cycle changes a to (2 s + s^2) a. This s makes the factor 1 - 2^-10. Every cycle then
/// has an effect far above the tolerance, so a skipped one is detected, and 700000 of them do not underflow.
const double scalar = std::sqrt(2.0 - 1.0 / 1024.0) - 1.0;

/// The expected arrays after some cycles, as factors of the start values: the same recurrence on one
/// element.
struct Expected {
    double a = 1;
    double b = 0;
    double c = 0;

    void cycle() {
        c = a;
        b = scalar * c;
        c = a + b;
        a = b + scalar * c;
    }
};

/// The sum of start(i)^2 over all elements, from whole periods and the rest.
double sum_of_squares(std::size_t elements) {
    double whole = 0;
    double rest = 0;
    for (std::size_t i = 0; i < period; ++i) {
        whole += start(i) * start(i);  // exact: multiples of 2^-20 below 2^12
        if (i < elements % period) rest += start(i) * start(i);
    }
    return whole * static_cast<double>(elements / period) + rest;
}

/// The results of one host or GPU.
struct Outcome {
    long warm = 0;
    std::vector<Cycle> cycles;
    tenken::Optional<std::vector<double>> memcpy_seconds;
    std::vector<tenken::Check> checks;
    tenken::Optional<tenken::EnergyFound> energy;  ///< of whole cycles
};

class Stream : public tenken::Program {
  public:
    Stream() : families_(families()), backend_name_(families_.front()->name()) {}

    std::string name() const override { return "stream"; }
    std::string purpose() const override {
        return "Memory bandwidth by copy (c = a), scale (b = s c), add (c = a + b), triad (a = b + s c) and "
               "dot (a . b) in double precision, in GB/s (10^9 bytes), counted as STREAM counts.";
    }

    void options(tenken::Arguments& arguments) override {
        arguments.choice("backend", backend_name_, names(), "where to run the kernels");
        arguments.bytes(
            "array-bytes", array_bytes_, 8, std::uint64_t{1} << 50,
            "bytes of each of the three arrays, rounded down to whole elements of 8; at least 4 x "
            "the last-level cache, and the three together at most 9/10 of the free memory",
            "host: the larger of 4 x the last-level cache and 64 MiB; GPU: of 20 x the L2 and 1 GiB");
        arguments.real("energy-seconds", energy_seconds_, "s", 0, 600,
                       "minimum duration of the energy pass, at least 2; 0: none");
        for (const std::unique_ptr<Family>& family : families_) family->options(arguments);
    }

    void prepare(const tenken::Arguments& arguments) override {
        for (const std::unique_ptr<Family>& family : families_) {
            if (family->name() == backend_name_) family_ = family.get();
        }
        places_ = family_->places(arguments);
        if (!arguments.given("array-bytes")) {
            array_bytes_ = 0;
            for (const std::unique_ptr<Backend>& place : places_) {
                const Capacity capacity = place->capacity();
                const std::uint64_t cache = capacity.cache_bytes.value_or(0);
                // If the cache is unknown, an array larger than all but the largest caches.
                const std::uint64_t one =
                    cache > 0 ? capacity.default_caches * cache : std::uint64_t{512} << 20;
                array_bytes_ = std::max({array_bytes_, one, capacity.min_default_bytes});
            }
        }
        for (const std::unique_ptr<Backend>& place : places_) require_fit(arguments, *place);
        elements_ = array_bytes_ / sizeof(double);
        array_bytes_ = elements_ * sizeof(double);
    }

    void measure(tenken::Run& run) override {
        std::vector<Outcome> outcomes(places_.size());
        tenken::parallel_for_devices(
            static_cast<int>(places_.size()), family_->at_once(), [&](tenken::DeviceWorker& worker) {
                const auto i = static_cast<std::size_t>(worker.index());
                const bool last =
                    i + 1 == places_.size();  // a fault there is detected only if all are compared
                measure_place(*places_[i], worker, run, last ? run.fault : tenken::Fault::none, outcomes[i]);
            });

        tenken::Document& document = run.document;
        document.build.backends = names();
        document.placement = tenken::find_placement();
        document.path("backend", backend_name_);
        family_->describe(document);
        for (std::size_t i = 0; i < places_.size(); ++i) {
            places_[i]->describe(document);
            report_place(*places_[i], outcomes[i], document);
        }
        for (const Outcome& outcome : outcomes) {
            for (const tenken::Check& check : outcome.checks) document.add(check);
        }
    }

  private:
    std::vector<std::string> names() const {
        std::vector<std::string> list;
        for (const std::unique_ptr<Family>& family : families_) list.push_back(family->name());
        return list;
    }

    void require_fit(const tenken::Arguments& arguments, const Backend& place) const {
        const Capacity capacity = place.capacity();
        const std::uint64_t cache = capacity.cache_bytes.value_or(0);
        const std::uint64_t maximum = capacity.free_bytes / 10 * 9 / 3;
        if (array_bytes_ < 4 * cache) {
            throw arguments.error("array-bytes", "at least " + tenken::format_bytes(4 * cache) +
                                                     ", 4 x the last-level cache of " +
                                                     tenken::format_bytes(cache));
        }
        if (array_bytes_ > maximum) {
            const std::string total = tenken::format_bytes(3 * array_bytes_);
            throw arguments.error("array-bytes", "at most " + tenken::format_bytes(maximum) +
                                                     " each: requested " + total +
                                                     " for three arrays, free " +
                                                     tenken::format_bytes(capacity.free_bytes) + on(place));
        }
    }

    /// " on gpu1"; empty for the host.
    static std::string on(const Backend& place) {
        const std::string text = place.subject().text();
        return text == "host" ? "" : " on " + text;
    }

    void measure_place(Backend& place, tenken::DeviceWorker& worker, const tenken::Run& run,
                       tenken::Fault fault, Outcome& outcome) const {
        place.allocate(elements_);
        worker.synchronize();
        outcome.warm = tenken::warm_up(run.warmup_seconds, [&] { place.cycle(scalar); });
        outcome.cycles.resize(static_cast<std::size_t>(run.repetitions));
        worker.synchronize();
        place.begin_timed();
        for (Cycle& cycle : outcome.cycles) cycle = place.cycle(scalar);
        place.end_timed();
        worker.synchronize();
        verify(place, fault, outcome);
        worker.synchronize();
        place.begin_timed();
        outcome.memcpy_seconds = place.memcpy_seconds(static_cast<long>(run.repetitions));
        place.end_timed();
        if (outcome.memcpy_seconds) {
            const Expected expected = expected_after(outcome.warm + static_cast<long>(run.repetitions));
            outcome.checks.push_back(compared(place, Array::c, expected.a, catalogue::memcpy(), fault));
        }
        worker.synchronize();
        if (energy_seconds_ == 0 || place.energy() == nullptr) return;
        tenken::EnergyPass pass = cycle_pass();
        pass.run = [&] {
            const double begin = tenken::now_seconds();
            place.cycle(scalar);
            return tenken::now_seconds() - begin;
        };
        tenken::Ranks nobody;
        outcome.energy = tenken::measure_energy(*place.energy(), nobody, energy_seconds_, pass);
    }

    /// All five kernels, bytes as counted by STREAM.
    tenken::EnergyPass cycle_pass() const {
        tenken::EnergyPass pass;
        for (const KernelFacts& kernel : facts)
            pass.amount += kernel.arrays * static_cast<double>(array_bytes_);
        pass.counted = "bytes";
        return pass;
    }

    void report_place(const Backend& place, const Outcome& outcome, tenken::Document& document) const {
        const std::string where = place.subject().text();
        tenken::Metric metric;
        metric.subject = place.subject();
        metric.clock = place.clock();
        for (std::size_t k = 0; k < kernel_count; ++k) {
            std::vector<double> seconds;
            std::vector<double> host_seconds;
            for (const Cycle& cycle : outcome.cycles) {
                seconds.push_back(cycle.seconds[k]);
                if (cycle.host_seconds) host_seconds.push_back((*cycle.host_seconds)[k]);
            }
            const double bytes = facts[k].arrays * static_cast<double>(array_bytes_);
            metric.name = facts[k].name;
            metric.timed(seconds, {{"bytes", bytes}});
            document.add(metric);
            if (host_seconds.empty()) continue;
            document.path("host_clock_gbs." + std::string(facts[k].name) + "." + where,
                          tenken::median(tenken::giga_per_second(bytes, host_seconds)));
        }
        if (outcome.energy) {
            tenken::Metric made;
            made.subject = place.subject();
            tenken::Ranks nobody;
            tenken::add_energy(document, nobody, cycle_pass(), *outcome.energy, made);
        }
        if (!outcome.memcpy_seconds) return;
        metric.name = "memcpy";
        metric.timed(*outcome.memcpy_seconds, {{"bytes", 2.0 * static_cast<double>(array_bytes_)}});
        document.add(metric);
    }

    static Expected expected_after(long cycles) {
        Expected expected;
        for (long i = 0; i < cycles; ++i) expected.cycle();
        return expected;
    }

    void verify(Backend& place, tenken::Fault fault, Outcome& outcome) const {
        Expected expected = expected_after(outcome.warm);
        const double squares = sum_of_squares(elements_);
        const std::string where = place.subject().text() == "host" ? "host_" : "";
        const tenken::Verified dot = catalogue::named(where + "dot");
        tenken::ErrorScan dots(dot.tolerance);
        for (std::size_t i = 0; i < outcome.cycles.size(); ++i) {
            expected.cycle();
            // neither the first nor the last: each cycle is verified
            const bool chosen = i == outcome.cycles.size() / 2;
            const double error = chosen ? tenken::injected_error(fault, dot, false) : 0;
            dots.compare(i, outcome.cycles[i].dot * (1 + error), expected.a * expected.b * squares);
        }
        outcome.checks = {compared(place, Array::a, expected.a, catalogue::named(where + "a"), fault),
                          compared(place, Array::b, expected.b, catalogue::named(where + "b"), fault),
                          compared(place, Array::c, expected.c, catalogue::named(where + "c"), fault),
                          dots.check(dot, place.subject())};
    }

    tenken::Check compared(Backend& place, Array array, double factor, const tenken::Verified& of,
                           tenken::Fault fault) const {
        const std::size_t last = elements_ - 1;
        const double error = tenken::injected_error(fault, of, array == Array::a);
        double scratch = 0;
        if (error > 0) place.write(array, last, *place.read(array, last, 1, &scratch) * (1 + error));
        return place.compare(array, elements_, factor, of.tolerance).check(of, place.subject());
    }

    std::vector<std::unique_ptr<Family>> families_;
    std::string backend_name_;
    std::uint64_t array_bytes_ = 0;
    double energy_seconds_ = 0;
    std::size_t elements_ = 0;
    Family* family_ = nullptr;
    std::vector<std::unique_ptr<Backend>> places_;
};

}  // namespace

}  // namespace stream

int main(int argc, char** argv) {
    stream::Stream program;
    return tenken::run_program(program, argc, argv);
}
