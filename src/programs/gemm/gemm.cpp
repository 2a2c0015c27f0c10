// GEMM in every precision: rate in the first second and after power and temperature have settled, and
// energy; every element of the product is compared.
#include <algorithm>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "lib/base/parallel_for_devices.h"
#include "programs/gemm/backend.h"

namespace gemm {

namespace {

/// Pause after the trials, before the first second: GPUs return to their maximum clock within it.
constexpr double rest_seconds = 0.3;
/// For a single algorithm: the power limiter oscillates with a period of a second. Runs with a shorter
/// sustained phase belong to mode quick, in which the algorithm is chosen from one stretch each.
constexpr double minimum_stretch = 0.8;
/// Seconds before values of zeros count as sustained, on a GPU that is already hot.
constexpr double first_of_zeros = 0.3;

class Gemm : public tenken::Program {
  public:
    Gemm() {
        families_.push_back(make_host_family());
#ifdef GEMM_HAVE_CUDA
        families_.push_back(make_cuda_family());
#endif
        backend_name_ = families_.back()->name();
    }

    std::string name() const override { return "gemm"; }
    std::string purpose() const override {
        return "Products of matrices in every precision by the best of the library's algorithms, in TFLOP/s "
               "(integer operations counted alike), in the first second and sustained, with power, every "
               "element verified.";
    }

    void options(tenken::Arguments& arguments) override {
        std::vector<std::string> names;
        for (const auto& family : families_) names.push_back(family->name());
        arguments.choice("backend", backend_name_, names, "where to multiply; host emulates the formats");
        arguments.text("cases", cases_text_, "LIST",
                       "PRECISION[:N or :MxNxK or :MxNxKxBATCH] with commas between; all: every precision's "
                       "square problem");
        arguments.choice("data", data_, {"random", "zeros", "both"},
                         "contents of the operands; zeros draw less power and are a separate coordinate");
        arguments.real("first-seconds", first_seconds_, "s", 0, 10,
                       "how long a GPU computes before values count as sustained; 0: all are a burst");
        arguments.real("sustained-seconds", sustained_seconds_, "s", 0.05, 600,
                       "how long to compute after the first seconds");
        arguments.real("energy-seconds", energy_seconds_, "s", 0, 600,
                       "duration of the energy pass, at least 2 for a value; 0: none");
        arguments.choice("algorithms", algorithms_, {"all", "first"},
                         "which of the library's algorithms: the fastest, or its first proposal, for a check "
                         "within seconds");
        for (const auto& family : families_) family->options(arguments);
    }

    void prepare(const tenken::Arguments& arguments) override {
        for (const auto& family : families_) {
            if (family->name() == backend_name_) family_ = family.get();
        }
        if (energy_seconds_ > 0 && energy_seconds_ < 2 && backend_name_ != "host")
            throw arguments.error("energy-seconds", "0 or at least 2: the sensor moves in steps of 0.1 s");
        try {
            cases_ = parse_cases(cases_text_, family_->square());
        } catch (const std::invalid_argument& wrong) {
            throw arguments.error("cases", wrong.what());
        }
        places_ = family_->places(arguments);
    }

    void measure(tenken::Run& run) override {
        tenken::Document& document = run.document;
        tenken::parallel_for_devices(static_cast<int>(places_.size()), family_->at_once(),
                                     [&](tenken::DeviceWorker& worker) {
                                         Place& place = *places_[static_cast<std::size_t>(worker.index())];
                                         for (const Case& one : cases_) measure_case(run, place, worker, one);
                                     });
        for (const auto& family : families_) document.build.backends.push_back(family->name());
        document.placement = tenken::find_placement();
        document.path("backend", backend_name_);
        family_->describe(document);
        if (measured_ == 0) throw tenken::Waived(tenken::Waiver::not_supported_by_the_device, left_out_);
    }

  private:
    void measure_case(tenken::Run& run, Place& place, tenken::DeviceWorker& worker, const Case& one) {
        const std::string where = one.text() + "." + place.subject().text();
        const std::string why_not = place.prepare(one);
        std::string missing = why_not;
        Choice choice;
        const Data first_data = data_ == "zeros" ? Data::zeros : Data::random;
        if (missing.empty()) {
            place.fill(first_data);
            if (algorithms_ == "first") {
                choice.text = place.take_first();
            } else {
                choice = place.choose(std::max(minimum_stretch, sustained_seconds_),
                                      sustained_seconds_ >= minimum_stretch);
                if (backend_name_ != "host")
                    std::this_thread::sleep_for(std::chrono::duration<double>(rest_seconds));
            }
        }
        worker.synchronize();
        if (!missing.empty()) {
            leave_out(run.document, where, one, missing);
            wait_with_others(worker);
            return;
        }
        place.fill(first_data);
        place.begin_timed();
        // a host has no power limiter that overshoots
        const double first = backend_name_ == "host" ? 0 : first_seconds_;
        const std::vector<Batch> batches = place.run_for(first + sustained_seconds_);
        place.end_timed();
        worker.synchronize();
        const tenken::Optional<tenken::Metric> energy = energy_pass(place, one, where, run.document);
        if (first_data == Data::zeros) {  // a product of zeros verifies nothing
            place.fill(Data::random);
            place.run_for(0);
        }
        tenken::Check check = place.verify(run.fault);
        const double of_best = algorithms_ == "all" ? place.of_best() : 0;  // changes C: another algorithm
        worker.synchronize();
        std::vector<Batch> zeros;
        if (data_ == "both") {
            place.fill(Data::zeros);
            zeros = place.run_for(first_of_zeros + sustained_seconds_ / 3);
        }
        worker.synchronize();
        place.release();

        const std::lock_guard<std::mutex> lock(mutex_);
        ++measured_;
        tenken::Document& document = run.document;
        const std::string data = first_data == Data::zeros ? "zeros" : "random";
        if (first > 0) add_rates(document, place, one, data, "first_second", batches, 0, first);
        const bool lasts = first > 0 || backend_name_ == "host";
        add_rates(document, place, one, data, lasts ? "sustained" : "burst", batches, first, 1e9);
        if (!zeros.empty())
            add_rates(document, place, one, "zeros", "sustained", zeros,
                      backend_name_ == "host" ? 0 : first_of_zeros, 1e9);
        if (algorithms_ == "all") {
            add_one(document, place, one, "of_best", of_best);
            add_one(document, place, one, "over_first", choice.over_first);
        }
        document.path("algorithm." + where, choice.text);
        if (energy) document.add(*energy);
        const tenken::Metric made = metric(place, one, "of_best");
        check.subject = made.subject;
        check.at = made.at;
        document.add(check);
    }

    void leave_out(tenken::Document& document, const std::string& where, const Case& one,
                   const std::string& why) {
        const std::lock_guard<std::mutex> lock(mutex_);
        document.path("left_out." + where, why);
        left_out_ += (left_out_.empty() ? "" : "; ") + one.text() + ": " + why;
    }

    /// A worker that omits a case still joins the barriers: the GPUs of a run may differ. It holds no lock at
    /// that point, since another worker needs it before it joins.
    static void wait_with_others(tenken::DeviceWorker& worker) {
        for (int i = 0; i < 3; ++i) worker.synchronize();
    }

    /// Its power, with the operations and the seconds of the pass, from which the energy follows.
    tenken::Optional<tenken::Metric> energy_pass(Place& place, const Case& one, const std::string& where,
                                                 tenken::Document& document) {
        tenken::Meter* const meter = place.energy();
        if (meter == nullptr || energy_seconds_ == 0) return {};
        meter->start();
        const std::vector<Batch> batches = place.run_for(energy_seconds_);
        tenken::Optional<tenken::EnergyReading> reading = meter->stop();
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!reading) {
            document.path("energy_left_out." + where, "no sensor could be read");
            return {};
        }
        double products = 0;
        for (const Batch& batch : batches) products += static_cast<double>(batch.count);
        reading->describe(document, "energy." + where);
        tenken::Metric power = metric(place, one, "power");
        power.samples = {reading->watts};
        power.counts = {{"operations", one.shape.operations() * products},
                        {"seconds", batches.back().begin + batches.back().seconds}};
        return power;
    }

    static tenken::Metric metric(const Place& place, const Case& one, const std::string& name) {
        tenken::Metric made;
        made.name = name;
        made.subject = place.subject();
        made.clock = place.clock();
        made.at = {{"precision", tenken::Json(std::string(one.precision->name))},
                   {"m", tenken::Json(one.shape.m)},
                   {"n", tenken::Json(one.shape.n)},
                   {"k", tenken::Json(one.shape.k)}};
        if (one.shape.batch > 1) made.at.emplace_back("batch", tenken::Json(one.shape.batch));
        return made;
    }

    static void add_rates(tenken::Document& document, const Place& place, const Case& one,
                          const std::string& data, const std::string& phase,
                          const std::vector<Batch>& batches, double from, double to) {
        tenken::Metric made = metric(place, one, "gemm");
        made.at.emplace_back("data", tenken::Json(data));
        made.at.emplace_back("phase", tenken::Json(phase));
        std::vector<double> seconds;
        for (const Batch& batch : batches) {
            // a batch belongs to the phase that contains its middle
            const double middle = batch.begin + batch.seconds / 2;
            if (middle < from || middle >= to) continue;
            seconds.push_back(batch.seconds / static_cast<double>(batch.count));
        }
        if (seconds.empty() && phase == "first_second") return;  // the first product alone takes longer
        made.timed(std::move(seconds), {{"operations", one.shape.operations()}});
        // the batches of one period have the same number of products
        if (batches.front().count > 1)
            made.counts.emplace_back("calls", static_cast<double>(batches.front().count));
        document.add(made);
    }

    static void add_one(tenken::Document& document, const Place& place, const Case& one,
                        const std::string& name, double value) {
        tenken::Metric made = metric(place, one, name);
        made.samples = {value};
        document.add(made);
    }

    std::vector<std::unique_ptr<Family>> families_;
    std::string backend_name_;
    Family* family_ = nullptr;
    std::string cases_text_ = "all";
    std::string data_ = "random";
    std::string algorithms_ = "all";
    double first_seconds_ = 1;
    double sustained_seconds_ = 1.2;
    double energy_seconds_ = 2.1;
    std::vector<Case> cases_;
    std::vector<std::unique_ptr<Place>> places_;
    std::mutex mutex_;
    int measured_ = 0;
    std::string left_out_;
};

}  // namespace

}  // namespace gemm

int main(int argc, char** argv) {
    gemm::Gemm program;
    return tenken::run_program(program, argc, argv);
}
