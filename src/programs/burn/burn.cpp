// Hours of load in phases that stress different parts. Every result is verified where it was computed, and a
// wrong one is computed again. A second process finds a GPU that hangs.
#include "catalogue/burn.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>

#include "lib/base/clock.h"
#include "lib/base/host.h"
#include "lib/base/parallel_for_devices.h"
#include "lib/base/program.h"
#include "lib/base/sweep.h"
#include "programs/burn/place.h"
#include "programs/burn/watch.h"

namespace burn {

const std::vector<Phase>& phases() {
    static const std::vector<Phase> all = [] {
        std::vector<Phase> list;
        const auto add = [&list](const char* name, Kind kind, Pattern pattern = Pattern::random) {
            const bool together = kind == Kind::peer || kind == Kind::all_reduce;
            list.push_back({name, kind, nullptr, false, pattern, together, Chain::stencil});
        };
        for (const Format& format : formats) {
            add(format.phase, Kind::product);
            list.back().format = &format;
        }
        add("own_fp16", Kind::product);
        add("power_steps", Kind::steps);
        for (Phase& phase : list) {
            if (phase.format != nullptr) continue;
            phase.own = true;
            phase.format = std::find_if(std::begin(formats), std::end(formats),
                                        [](const Format& one) { return one.operand == Operand::fp16; });
        }
        add("stencil", Kind::chain);
        add("sparse", Kind::chain);
        list.back().chain = Chain::sparse;
        add("inversions", Kind::memory, Pattern::inversions);
        add("walking", Kind::memory, Pattern::walking);
        add("random", Kind::memory, Pattern::random);
        add("rows", Kind::memory, Pattern::rows);
        add("copies", Kind::copies);
        add("peer", Kind::peer);
        add("all_reduce", Kind::all_reduce);
        return list;
    }();
    return all;
}

namespace {

/// Number of turns with verification, and of turns without.
constexpr int turns = 5;
constexpr int max_wrong_listed = 64;

/// All places of the run.
class Everybody : public Meeting {
  public:
    Everybody(tenken::DeviceWorker& worker, std::atomic<bool>& wish) : worker_(worker), wish_(wish) {}
    bool go_on(bool wish) override {
        if (worker_.index() == 0) wish_ = wish;
        worker_.synchronize();
        const bool agreed = wish_;
        worker_.synchronize();
        return agreed;
    }
    void wait() override { worker_.synchronize(); }

  private:
    tenken::DeviceWorker& worker_;
    std::atomic<bool>& wish_;
};

std::string hexadecimal(std::uint64_t bits) {
    char text[20];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(bits));
    return text;
}

/// All visits to one phase on one place.
struct Sum {
    std::vector<double> seconds;  ///< of one step, by visit
    double per_step = 0;          ///< operations or bytes
    double operations = 0;
    double checked = 0;
    std::uint64_t wrong = 0;
    tenken::Json first_wrong;
    std::string fingerprint;
};

/// How far an interrupted run had come.
struct Progress {
    std::uint32_t rounds = 0;
    double seconds = 0;
    std::uint64_t wrong = 0;

    Progress() = default;
    Progress(std::uint32_t rounds, double seconds, std::uint64_t wrong)
        : rounds(rounds), seconds(seconds), wrong(wrong) {}

    /// Nothing, if there is no such file. @throws std::runtime_error if it is another file
    static Progress read(const std::string& file) {
        Progress found;
        std::ifstream in(file);
        if (!in) return found;
        std::string word;
        if (!(in >> word >> found.rounds >> found.seconds >> found.wrong) || word != "tenken-burn/1")
            throw std::runtime_error("--progress '" + file +
                                     "' is not the progress of a burn; remove it to begin again");
        return found;
    }
    /// Writes all of it or nothing, also if the power is cut. @throws std::runtime_error
    void write(const std::string& file) const {
        const std::string unfinished = file + ".tmp";
        std::FILE* const out = std::fopen(unfinished.c_str(), "w");
        bool written = out != nullptr && std::fprintf(out, "tenken-burn/1 %" PRIu32 " %g %" PRIu64 "\n",
                                                      rounds, seconds, wrong) > 0;
        written = written && std::fflush(out) == 0 && (fsync(fileno(out)) == 0 || errno == EINVAL);
        if (out != nullptr) written = std::fclose(out) == 0 && written;
        if (!written || std::rename(unfinished.c_str(), file.c_str()) != 0)
            throw std::runtime_error("--progress '" + file + "' cannot be written");
    }
};

struct Turns {
    std::vector<double> with;
    std::vector<double> without;
    double operations = 0;
};

/// What one place did.
struct Done {
    std::map<std::string, Sum> sums;  ///< by phase
    std::map<std::string, Turns> turns;
    double copy_rate = 0;  ///< bytes a second, before the rounds
    double copy_rate_after = 0;
    double seconds = 0;            ///< of the rounds
    double clean_until = 0;        ///< second of the first visit with a wrong result; 0: none
    std::vector<Sensors> sensors;  ///< before each visit
    std::size_t in_rounds = 0;     ///< of these, up to the end of the rounds
    tenken::Optional<tenken::EnergyReading> power;
};

}  // namespace

std::string Sensors::text() const {
    const auto part = [](const tenken::Optional<double>& value, const char* unit) {
        char text[32] = "";
        if (value) std::snprintf(text, sizeof text, ", %.0f %s", *value, unit);
        return std::string(text);
    };
    const auto count = [&part](const tenken::Optional<std::int64_t>& value, const char* what) {
        tenken::Optional<double> number;
        if (value) number = static_cast<double>(*value);
        return part(number, what);
    };
    const std::string all = part(temperature_c, "degC") + part(power_w, "W") + part(clock_mhz, "MHz") +
                            count(ecc_corrected, "corrected") + count(ecc_uncorrected, "uncorrected");
    return all.empty() ? all : all.substr(2);
}

namespace {

class Burn : public tenken::Program {
  public:
    /// @param lost why the process that ran this before has ended; empty: this is the one
    Burn(Board& board, std::string lost) : board_(board), lost_(std::move(lost)) {
        families_.push_back(make_host_family());
#ifdef BURN_HAVE_CUDA
        families_.push_back(make_cuda_family());
#endif
        backend_name_ = families_.back()->name();
    }

    std::string name() const override { return "burn"; }
    std::string purpose() const override {
        return "Hours of load in phases that stress different parts, with every result checked: reports "
               "what is wrong, where, and whether it is wrong again.";
    }

    void options(tenken::Arguments& arguments) override {
        std::vector<std::string> names;
        for (const auto& family : families_) names.push_back(family->name());
        arguments.choice("backend", backend_name_, names, "cuda: all GPUs at once");
        arguments.text("phases", asked_, "LIST", "all, or some of " + tenken::joined(phase_names()));
        arguments.real("seconds", seconds_, "s", 0, 700000,
                       "duration of the rounds; the first round is completed in any case");
        arguments.real(
            "visit-seconds", visit_seconds_, "s", 0, 600,
            "how long each phase runs before the next; 0: a third of the seconds over the number of "
            "phases, at most 30");
        arguments.real("memory-share", memory_share_, "1", 0.01, 0.99,
                       "share of a GPU's free memory, at most");
        arguments.bytes("host-bytes", host_bytes_, 16 << 20, std::uint64_t{1} << 50, "memory of the host");
        arguments.integer("host-order", host_order_, 128, 16384,
                          "order of the products on the host, a multiple of 128");
        arguments.flag("with-host", with_host_, "with the back end cuda: load the host as well");
        arguments.flag("in-phase", in_phase_,
                       "power steps of all GPUs at the same time, instead of one after another");
        arguments.integer("seed", seed_, 0, std::int64_t{1} << 40, "of all data");
        arguments.real("compare-seconds", compare_seconds_, "s", 0, 60,
                       "duration of each turn of products with and without checking; 0: no turns");
        arguments.real("heat-seconds", heat_seconds_, "s", 0, 3600,
                       "duration of load before power is measured");
        arguments.real("power-seconds", power_seconds_, "s", 0, 3600,
                       "duration over which the mean power is measured; 0: none");
        arguments.text("hot-phase", hot_phase_, "PHASE", "phase in which the power is measured");
        arguments.integer(
            "injections", injections_, 0, 1000000,
            "inject at least this many faults of each class into each phase and count those found, instead "
            "of the rounds; 0: none");
        arguments.real("silent-seconds", silent_seconds_, "s", 0.1, 3600,
                       "time without a sign of life after which a GPU counts as hung");
        arguments.real("report-seconds", report_seconds_, "s", 0, 3600,
                       "interval between lines of progress; 0: none");
        arguments.text("progress", progress_file_, "FILE",
                       "written after each round; where it exists the run continues after its last round, "
                       "with its seconds "
                       "and wrong results");
        for (const auto& family : families_) family->options(arguments);
    }

    std::vector<tenken::FaultKind> faults() const override {
        std::vector<tenken::FaultKind> kinds;
        for (const FaultClass& one : fault_classes)
            kinds.push_back(
                {one.name, std::string(one.help) + ", once in each phase where it has a meaning", "", ""});
        kinds.push_back({"hang", "a phase that never ends", "", ""});
        kinds.push_back({"killed", "the process ends by SIGKILL", "", ""});
        kinds.push_back({"no-memory", "the memory cannot be allocated", "", ""});
        return kinds;
    }

    void prepare(const tenken::Arguments& arguments) override {
        if (!lost_.empty()) return;
        if (host_order_ % 128 != 0) throw arguments.error("host-order", "multiples of 128");
        const std::vector<std::string> wanted =
            tenken::all_or_distinct_words(arguments, "phases", asked_, phase_names(), "");
        for (const Phase& phase : phases()) {
            if (std::find(wanted.begin(), wanted.end(), phase.name) != wanted.end()) chosen_.push_back(phase);
        }
        if (power_seconds_ > 0 && find(hot_phase_) == nullptr)
            throw arguments.error("hot-phase", "one of --phases");
        if (!progress_file_.empty()) before_ = Progress::read(progress_file_);
        board_.silent_seconds = silent_seconds_;
        board_.report_seconds = report_seconds_;
        for (const auto& family : families_) {
            if (family->name() == backend_name_) family_ = family.get();
        }
        if (injected_fault() == "no-memory") memory_share_ = 2;
        places_ = family_->places(arguments, memory_share_, host_bytes_,
                                  static_cast<std::uint32_t>(host_order_), static_cast<std::uint64_t>(seed_));
        if (injected_fault() == "no-memory") throw std::runtime_error("the memory could not be allocated");
        if (with_host_ && backend_name_ != "host") {
            for (auto& place : families_.front()->places(arguments, memory_share_, host_bytes_,
                                                         static_cast<std::uint32_t>(host_order_),
                                                         static_cast<std::uint64_t>(seed_)))
                places_.push_back(std::move(place));
        }
        if (places_.size() > Board::max_places) throw std::runtime_error("too many GPUs");
        const double share = seconds_ / 3 / static_cast<double>(chosen_.size());
        if (visit_seconds_ <= 0) visit_seconds_ = std::max(0.01, std::min(30.0, share));
    }

    void measure(tenken::Run& run) override {
        run_ = &run;
        tenken::Document& document = run.document;
        for (const auto& family : families_) document.build.backends.push_back(family->name());
        document.placement = tenken::find_placement();
        document.path("backend", backend_name_);
        if (!lost_.empty()) {
            document.path("progress", board_.line());
            throw std::runtime_error(lost_);
        }
        fault_ = fault_named(injected_fault());
        done_.resize(places_.size());
        board_.begin = tenken::now_seconds();
        for (std::size_t i = 0; i < places_.size(); ++i) {
            Beat& beat = board_.beats[i];
            std::snprintf(beat.subject, sizeof beat.subject, "%s", places_[i]->subject().text().c_str());
        }
        board_.places = static_cast<int>(places_.size());
        tenken::parallel_for_devices(static_cast<int>(places_.size()), places_.size() > 1,
                                     [&](tenken::DeviceWorker& worker) {
                                         const auto index = static_cast<std::size_t>(worker.index());
                                         places_[index]->begin();
                                         if (injections_ > 0)
                                             study(index);
                                         else
                                             burn(index, worker);
                                         places_[index]->end();
                                         board_.beats[index].last = 0;
                                     });
        family_->describe(document);
        for (std::size_t i = 0; i < places_.size() && injections_ == 0; ++i) report(i, document);
        if (injections_ == 0) add_fingerprints(document);
        if (before_.wrong > 0)
            document.fail(std::to_string(before_.wrong) +
                          " wrong results in the rounds before it was continued");
        if (before_.rounds > 0) document.path("continued_after_rounds", before_.rounds);
        if (!wrong_.empty()) document.path("wrong", wrong_);
        document.path("wrong_listed", listed_);
    }

  private:
    static std::vector<std::string> phase_names() {
        std::vector<std::string> names;
        for (const Phase& phase : phases()) names.push_back(phase.name);
        return names;
    }
    const Phase* find(const std::string& name) const {
        for (const Phase& phase : chosen_)
            if (name == phase.name) return &phase;
        return nullptr;
    }

    std::function<void(std::uint64_t)> beats_of(std::size_t index, const char* phase) {
        Beat& beat = board_.beats[index];
        std::snprintf(beat.phase, sizeof beat.phase, "%s", phase);
        const Sensors now = places_[index]->sensors();
        std::snprintf(beat.sensors, sizeof beat.sensors, "%s", now.text().c_str());
        done_[index].sensors.push_back(now);
        beat.last = tenken::now_seconds();
        const std::uint64_t before = beat.steps;
        return [&beat, before](std::uint64_t steps) {
            beat.steps = before + steps;
            beat.last = tenken::now_seconds();
        };
    }

    void burn(std::size_t index, tenken::DeviceWorker& worker) {
        Everybody everybody(worker, wish_);
        Place& place = *places_[index];
        std::map<std::string, Sum>& sums = done_[index].sums;
        std::vector<const Phase*> here;
        for (const Phase& phase : chosen_) {
            const std::string why_not = place.why_not(phase);
            // collectives of all GPUs: every GPU takes part
            if (why_not.empty() || phase.together) here.push_back(&phase);
            if (!why_not.empty()) {
                const std::lock_guard<std::mutex> lock(mutex_);
                run_->document.path(std::string("left_out.") + phase.name + "." + place.subject().text(),
                                    why_not);
            }
        }
        beats_of(index, "copy");
        done_[index].copy_rate = place.copy_rate(std::min(0.5, visit_seconds_));
        if (compare_seconds_ > 0) compare(index, here);
        done_[index].sensors.clear();
        everybody.wait();
        const double begin = tenken::now_seconds() - before_.seconds;
        bool more = true;
        for (std::uint32_t round = before_.rounds; more; ++round) {
            for (const Phase& phase : chosen_) {
                more = everybody.go_on(round == before_.rounds || tenken::now_seconds() - begin < seconds_);
                if (!more) break;
                if (std::find(here.begin(), here.end(), &phase) == here.end()) continue;
                if (!place.why_not(phase).empty()) {
                    while (everybody.go_on(false)) everybody.wait();
                    continue;
                }
                visit(index, phase, round, visit_seconds_, &everybody, sums);
                if (done_[index].clean_until == 0 && board_.beats[index].wrong > 0)
                    done_[index].clean_until = tenken::now_seconds() - begin;
                if (injected_fault() == "hang") place.hang();
                if (injected_fault() == "killed") kill(getpid(), SIGKILL);
            }
            if (index == 0 && more && !progress_file_.empty())
                Progress{round + 1, tenken::now_seconds() - begin, before_.wrong + wrong_so_far()}.write(
                    progress_file_);
        }
        done_[index].sensors.push_back(place.sensors());
        done_[index].seconds = tenken::now_seconds() - begin;
        done_[index].in_rounds = done_[index].sensors.size();
        beats_of(index, "copy");
        done_[index].copy_rate_after = place.copy_rate(std::min(0.5, visit_seconds_));
        if (power_seconds_ > 0) measure_power(index);
    }

    std::uint64_t wrong_so_far() const {
        std::uint64_t wrong = 0;
        for (int i = 0; i < board_.places; ++i) wrong += board_.beats[i].wrong;
        return wrong;
    }

    void visit(std::size_t index, const Phase& phase, std::uint32_t number, double seconds, Meeting* meeting,
               std::map<std::string, Sum>& sums) {
        How how;
        how.seconds = seconds;
        how.number = number;
        how.meeting = meeting;
        how.in_phase = in_phase_;
        how.beat = beats_of(index, phase.name);
        const std::vector<Fault> meaningful = faults_in(phase.kind, phase.pattern == Pattern::walking);
        if (number == 0 && std::find(meaningful.begin(), meaningful.end(), fault_) != meaningful.end())
            how.fault = fault_;
        if (number == 0 && run_->fault == tenken::Fault::element) how.fault = Fault::one_bit;
        const Visit done = places_[index]->visit(phase, how);
        Sum& sum = sums[phase.name];
        sum.seconds.push_back(done.seconds / static_cast<double>(done.steps));
        sum.per_step = done.operations / static_cast<double>(done.steps);
        sum.operations += done.operations;
        sum.checked += done.checked;
        if (!done.fingerprint.empty()) sum.fingerprint = done.fingerprint;
        if (done.wrong > 0) note(index, phase, number, done, sum);
        board_.beats[index].wrong = board_.beats[index].wrong + done.wrong;
        ++board_.beats[index].visits;
    }

    void note(std::size_t index, const Phase& phase, std::uint32_t number, const Visit& done, Sum& sum) {
        sum.wrong += done.wrong;
        static const char* const kinds[] = {"output", "first operand", "second operand",
                                            "memory", "copy",          "word of a chain"};
        for (const Record& one : done.records) {
            tenken::Json wrong = tenken::Json::object();
            wrong.set("subject", places_[index]->subject().text()).set("serial", places_[index]->serial());
            wrong.set("phase", phase.name)
                .set("visit", number)
                .set("step", one.step)
                .set("time", tenken::utc_now());
            wrong.set("kind", kinds[one.kind]).set("row", one.row).set("column", one.column);
            wrong.set("expected", hexadecimal(one.expected)).set("found", hexadecimal(one.found));
            wrong.set("flipped", hexadecimal(one.expected ^ one.found));
            wrong.set("again", done.verdict).set("sensors", places_[index]->sensors().text());
            if (sum.first_wrong.is_null()) sum.first_wrong = wrong;
            const std::lock_guard<std::mutex> lock(mutex_);
            if (++listed_ <= max_wrong_listed) {
                wrong_.push(wrong);
                std::printf("burn: WRONG: %s\n", wrong.listed().c_str());
                std::fflush(stdout);
            }
        }
    }

    /// Products with and without verification, in turns.
    void compare(std::size_t index, const std::vector<const Phase*>& here) {
        for (const Phase* const phase : here) {
            if (phase->kind != Kind::product) continue;
            for (int turn = 0; turn < 2 * turns; ++turn) {
                How how;
                how.seconds = compare_seconds_;
                // numbers as in visit 0; with, without, without, with verification: a drift affects both
                // equally
                how.number = 3;
                how.checked = turn % 4 == 0 || turn % 4 == 3;
                how.beat = beats_of(index, phase->name);
                const Visit done = places_[index]->visit(*phase, how);
                Turns& both = done_[index].turns[phase->name];
                if (done.wrong > 0) note(index, *phase, how.number, done, done_[index].sums[phase->name]);
                (how.checked ? both.with : both.without)
                    .push_back(done.seconds / static_cast<double>(done.steps));
                both.operations = done.operations / static_cast<double>(done.steps);
            }
        }
    }

    void measure_power(std::size_t index) {
        Place& place = *places_[index];
        const Phase& phase = *find(hot_phase_);
        if (!place.why_not(phase).empty()) return;
        std::map<std::string, Sum>& sums = done_[index].sums;
        visit(index, phase, 3, heat_seconds_, nullptr, sums);
        tenken::Meter* const meter = place.energy();
        if (meter != nullptr) meter->start();
        visit(index, phase, 3, power_seconds_, nullptr, sums);
        if (meter != nullptr) done_[index].power = meter->stop();
    }

    void study(std::size_t index) {
        Place& place = *places_[index];
        for (const Phase& phase : chosen_) {
            // power steps use products of this program's kernel; copies between GPUs are verified like those
            // to the host
            if (phase.together || phase.kind == Kind::steps || !place.why_not(phase).empty()) continue;
            for (const Fault fault : faults_in(phase.kind, phase.pattern == Pattern::walking)) {
                Study done =
                    place.study(phase, fault, static_cast<double>(injections_), beats_of(index, phase.name));
                done.found -= tenken::injected_error(run_->fault, catalogue::missed(), false);
                done.false_alarms += tenken::injected_error(run_->fault, catalogue::no_false_alarm(), false);
                const std::lock_guard<std::mutex> lock(mutex_);
                tenken::At at = {{"phase", tenken::Json(std::string(phase.name))},
                                 {"fault", tenken::Json(name_of(fault))}};
                const std::pair<const char*, double> values[] = {
                    {"injected", done.injected}, {"masked", done.masked}, {"found", done.found}};
                for (const auto& value : values) add(place, value.first, at, {value.second});
                tenken::Check check;
                check.of = catalogue::no_false_alarm();
                check.subject = place.subject();
                check.at = at;
                check.error = done.false_alarms;
                run_->document.add(check);
                check.of = catalogue::missed();
                check.error = done.injected - done.masked - done.found;
                run_->document.add(check);
            }
        }
    }

    void add(const Place& place, const std::string& name, tenken::At at, std::vector<double> samples) {
        tenken::Metric metric;
        metric.name = name;
        metric.subject = place.subject();
        metric.at = std::move(at);
        metric.samples = std::move(samples);
        run_->document.add(metric);
    }
    void add_timed(const Place& place, const std::string& name, tenken::At at,
                   const std::vector<double>& seconds, const char* counted, double count) {
        tenken::Metric metric;
        metric.name = name;
        metric.subject = place.subject();
        metric.at = std::move(at);
        metric.timed(seconds, {{counted, count}});
        run_->document.add(metric);
    }

    void report(std::size_t index, tenken::Document& document) {
        const Place& place = *places_[index];
        add(place, "copy", {}, {done_[index].copy_rate * 1e-9});
        add(place, "copy_after", {}, {done_[index].copy_rate_after * 1e-9});
        add(place, "memory_share", {}, {place.memory_share()});
        for (const Phase& phase : chosen_) {
            const auto found = done_[index].sums.find(phase.name);
            if (found == done_[index].sums.end()) continue;
            const Sum& sum = found->second;
            const tenken::At at = {{"phase", tenken::Json(std::string(phase.name))}};
            if (phase.kind == Kind::product)
                add_timed(place, "rate", at, sum.seconds, "operations", sum.per_step);
            else if (phase.kind == Kind::memory)
                add_timed(place, "memory", at, sum.seconds, "bytes", sum.per_step);
            else if (phase.kind == Kind::chain)
                add_timed(place, "updates", at, sum.seconds, "cells", sum.per_step);
            else if (phase.kind != Kind::steps)
                add_timed(place, "copied", at, sum.seconds, "bytes", sum.per_step);
            add(place, "checked", at, {sum.checked / sum.operations});
            add(place, "amount", at, {sum.operations * 1e-12});
            const auto compared = done_[index].turns.find(phase.name);
            if (compared != done_[index].turns.end()) {
                add_timed(place, "with_checks", at, compared->second.with, "operations",
                          compared->second.operations);
                add_timed(place, "without_checks", at, compared->second.without, "operations",
                          compared->second.operations);
            }
            tenken::Check check;
            check.of = catalogue::results();
            check.subject = place.subject();
            check.at = at;
            check.error = static_cast<double>(sum.wrong);
            check.first_wrong = sum.first_wrong;
            document.add(check);
        }
        const Done& done = done_[index];
        // all places go through the rounds together, and the first one decides when to end; the others
        // started a moment later, but have run at least the requested seconds too
        add(place, "clean", {}, {done.clean_until > 0 ? done.clean_until : done_.front().seconds});
        const std::pair<const char*, tenken::Optional<double> Sensors::*> read[] = {
            {"temperature", &Sensors::temperature_c},
            {"draw", &Sensors::power_w},
            {"clock", &Sensors::clock_mhz}};
        for (const auto& one : read) {
            std::vector<double> samples;
            for (std::size_t i = 0; i < done.in_rounds; ++i) {
                const tenken::Optional<double>& value = done.sensors[i].*one.second;
                if (value) samples.push_back(*value);
            }
            if (!samples.empty()) add(place, one.first, {}, samples);
        }
        const tenken::Optional<double>& first = done.sensors.front().joules;
        const tenken::Optional<double>& last = done.sensors[done.in_rounds - 1].joules;
        if (first && last) add(place, "energy", {}, {1e-3 * (*last - *first)});
        if (done_[index].power) {
            done_[index].power->describe(document, std::string("power.") + place.subject().text());
            add(place, "power", {}, {done_[index].power->watts});
        }
    }

    /// What each GPU computed from the seed, to be compared with others of its kind and with its own past.
    /// Exact products are the same with every version of the library.
    void add_fingerprints(tenken::Document& document) {
        tenken::Json list = tenken::Json::array();
        for (std::size_t i = 0; i < places_.size(); ++i) {
            tenken::Json prints = tenken::Json::array();
            for (std::size_t p = 0; p < phases().size(); ++p) {
                const char* const name = phases()[p].name;
                const auto found = done_[i].sums.find(name);
                if (found == done_[i].sums.end() || found->second.fingerprint.empty()) continue;
                tenken::Json one = tenken::Json::array();
                prints.push(one.push(p).push(name).push(found->second.fingerprint));
            }
            if (prints.empty()) continue;
            tenken::Json trace = tenken::Json::object();
            trace.set("kind", places_[i]->kind())
                .set("algorithm", places_[i]->algorithm())
                .set("seed", seed_);
            trace.set("versions", tenken::Json::object()).set("device", places_[i]->serial());
            trace.set("node", tenken::describe_host().name)
                .set("gpu", places_[i]->gpu())
                .set("prints", prints);
            list.push(trace);
        }
        document.path("fingerprints", list);
    }

    Board& board_;
    std::string lost_;
    std::vector<std::unique_ptr<Family>> families_;
    std::string backend_name_;
    Family* family_ = nullptr;
    std::string asked_ = "all";
    double seconds_ = 60;
    double visit_seconds_ = 0;
    double memory_share_ = 0.965;
    std::uint64_t host_bytes_ = std::uint64_t{1} << 30;
    std::int64_t host_order_ = 512;
    bool with_host_ = false;
    std::string progress_file_;
    Progress before_;
    bool in_phase_ = false;
    std::int64_t seed_ = 1;
    double compare_seconds_ = 0;
    double heat_seconds_ = 60;
    double power_seconds_ = 0;
    std::string hot_phase_ = "gemm_fp16";
    std::int64_t injections_ = 0;
    double silent_seconds_ = 120;
    double report_seconds_ = 60;
    std::vector<Phase> chosen_;
    std::vector<std::unique_ptr<Place>> places_;
    std::vector<Done> done_;
    std::atomic<bool> wish_{true};
    std::mutex mutex_;
    Fault fault_ = Fault::none;
    tenken::Run* run_ = nullptr;
    tenken::Json wrong_ = tenken::Json::array();
    int listed_ = 0;
};

}  // namespace

}  // namespace burn

int main(int argc, char** argv) {
    burn::Board* const board = burn::Board::shared();
    // before anything else, since a process with threads or a GPU context must not fork
    const pid_t parent = getpid();
    const pid_t process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) return tenken::exit_failed;
        burn::Burn program(*board, "");
        return tenken::run_program(program, argc, argv);
    }
    if (process < 0) {
        std::perror("burn: no second process");
        return tenken::exit_failed;
    }
    const burn::Ending ending = burn::watch(process, *board);
    if (ending.reason.empty()) return ending.status;
    burn::Burn program(*board, ending.reason);
    return tenken::run_program(program, argc, argv);
}
