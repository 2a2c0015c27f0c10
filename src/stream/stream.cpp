// STREAM: sustainable memory bandwidth by copy, scale, add, triad and dot.
#include <algorithm>
#include <cmath>
#include <limits>

#include "common/program.h"
#include "stream/backend.h"

namespace stream {

namespace {

struct KernelFacts {
    const char* name;
    double arrays;  ///< moved per repetition as STREAM counts: each operand once, no write allocate
};
constexpr KernelFacts facts[kernel_count] = {{"copy", 2}, {"scale", 2}, {"add", 3}, {"triad", 3}, {"dot", 2}};

/// With s = scalar a cycle turns a into (2 s + s^2) a. This s makes that 1 - 2^-10: every cycle leaves a
/// trace far above the tolerance, so none can be skipped unseen, and 700000 of them still do not underflow.
const double scalar = std::sqrt(2.0 - 1.0 / 1024.0) - 1.0;

/// What the arrays hold after some cycles, as factors of the start values: the same recurrence on one
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

class Stream : public tenken::Program {
  public:
    Stream() : choices_(backends()), backend_name_(choices_.front().name) {}

    std::string name() const override { return "stream"; }
    std::string purpose() const override {
        return "Memory bandwidth by copy (c = a), scale (b = s c), add (c = a + b), triad (a = b + s c) and "
               "dot (a . b) in double precision, in GB/s (10^9 bytes), counted as STREAM counts.";
    }

    void options(tenken::Arguments& arguments) override {
        std::vector<std::string> names;
        for (const BackendEntry& entry : choices_) names.push_back(entry.name);
        arguments.choice("backend", backend_name_, names, "what runs the kernels");
        arguments.bytes(
            "array-bytes", array_bytes_, 8, std::uint64_t{1} << 50,
            "bytes of each of the three arrays, rounded down to whole elements of 8; at least 4 x "
            "the last-level cache, and the three together at most 9/10 of the free memory",
            "host: the larger of 4 x the last-level cache and 64 MiB");
    }

    void prepare(const tenken::Arguments& arguments) override {
        for (const BackendEntry& entry : choices_) {
            if (entry.name == backend_name_) backend_ = entry.make();
        }
        const Capacity capacity = backend_->capacity();
        const std::uint64_t cache = capacity.cache_bytes.value_or(0);
        const std::uint64_t most = capacity.free_bytes / 10 * 9 / 3;
        if (!arguments.given("array-bytes")) {
            // Where the cache is not known, an array that is above all but the largest.
            array_bytes_ = cache > 0 ? capacity.default_caches * cache : std::uint64_t{512} << 20;
            array_bytes_ = std::max(array_bytes_, capacity.least_default_bytes);
        }
        if (array_bytes_ < 4 * cache) {
            throw arguments.error("array-bytes", "at least " + tenken::format_bytes(4 * cache) +
                                                     ", 4 x the last-level cache of " +
                                                     tenken::format_bytes(cache));
        }
        if (array_bytes_ > most) {
            const std::string total = tenken::format_bytes(3 * array_bytes_);
            throw arguments.error("array-bytes", "at most " + tenken::format_bytes(most) + " each: asked " +
                                                     total + " for three arrays, free " +
                                                     tenken::format_bytes(capacity.free_bytes));
        }
        elements_ = array_bytes_ / sizeof(double);
        array_bytes_ = elements_ * sizeof(double);
    }

    void measure(tenken::Run& run) override {
        backend_->allocate(elements_);
        const long warm = tenken::warm_up(run.warmup_seconds, [&] { backend_->cycle(scalar); });
        std::vector<Cycle> cycles(static_cast<std::size_t>(run.repetitions));
        for (Cycle& cycle : cycles) cycle = backend_->cycle(scalar);

        tenken::Document& document = run.document;
        for (const BackendEntry& entry : choices_) document.build.backends.push_back(entry.name);
        document.placement = tenken::find_placement();
        backend_->describe(document);
        document.path("backend", backend_name_);
        for (std::size_t k = 0; k < kernel_count; ++k) {
            std::vector<double> seconds;
            for (const Cycle& cycle : cycles) seconds.push_back(cycle.seconds[k]);
            tenken::Metric metric;
            metric.name = facts[k].name;
            metric.subject = backend_->subject();
            metric.unit = "GB/s";
            metric.samples =
                tenken::giga_per_second(facts[k].arrays * static_cast<double>(array_bytes_), seconds);
            metric.clock = backend_->clock();
            document.add(metric, backend_->limit(static_cast<Kernel>(k)));
        }
        verify(run, warm, cycles);
    }

  private:
    void verify(tenken::Run& run, long warm, const std::vector<Cycle>& cycles) {
        constexpr double epsilon = std::numeric_limits<double>::epsilon();
        if (run.fault == tenken::Fault::element) {
            double scratch = 0;
            const std::size_t victim = elements_ / 2;
            backend_->write(Array::a, victim,
                            tenken::with_flipped_bit(*backend_->read(Array::a, victim, 1, &scratch)));
        }
        // Per cycle and side at most three roundings of epsilon / 2 (fewer where multiply and add are fused).
        const double cycle_count = static_cast<double>(warm) + static_cast<double>(cycles.size());
        const double tolerance = 4 * epsilon * (cycle_count + 1);

        Expected expected;
        for (long i = 0; i < warm; ++i) expected.cycle();
        // n additions one after the other lose at most n epsilon / 2 of a sum of positive terms.
        const double dot_tolerance = 2 * tolerance + epsilon * static_cast<double>(elements_);
        const double squares = sum_of_squares(elements_);
        tenken::ErrorScan dots(dot_tolerance);
        for (std::size_t i = 0; i < cycles.size(); ++i) {
            expected.cycle();
            dots.compare(i, cycles[i].dot, expected.a * expected.b * squares);
        }
        run.document.add(array_check(Array::a, "a", expected.a, tolerance));
        run.document.add(array_check(Array::b, "b", expected.b, tolerance));
        run.document.add(array_check(Array::c, "c", expected.c, tolerance));
        run.document.add(dots.check("dot of every timed repetition, relative error"));
    }

    tenken::Check array_check(Array array, const char* array_name, double factor, double tolerance) {
        tenken::ErrorScan errors(tolerance);
        const std::size_t chunk = std::min<std::size_t>(elements_, std::size_t{4} << 20);
        std::vector<double> scratch(chunk);
        for (std::size_t first = 0; first < elements_; first += chunk) {
            const std::size_t count = std::min(chunk, elements_ - first);
            const double* values = backend_->read(array, first, count, scratch.data());
            tenken::scan(errors, values, count, first, tolerance,
                         [factor](std::size_t i) { return factor * start(i); });
        }
        return errors.check(std::string("array ") + array_name + ", every element, relative error");
    }

    std::vector<BackendEntry> choices_;
    std::string backend_name_;
    std::uint64_t array_bytes_ = 0;
    std::size_t elements_ = 0;
    std::unique_ptr<Backend> backend_;
};

}  // namespace

}  // namespace stream

int main(int argc, char** argv) {
    stream::Stream program;
    return tenken::run_program(program, argc, argv);
}
