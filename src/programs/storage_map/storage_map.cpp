// Which way between memory and a file is the fastest, by direction and size: the table that an application,
// or the choice by a map that is judged here, can go by.

#include "lib/file_io/storage_map.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "lib/base/clock.h"
#include "lib/base/host.h"
#include "lib/base/placement.h"
#include "lib/base/program.h"
#include "lib/base/statistics.h"
#include "lib/file_io/check_file.h"
#include "lib/file_io/gds_probe.h"
#include "lib/file_io/memory_space.h"
#include "lib/file_io/place.h"
#include "lib/file_io/rounds.h"
#include "lib/file_io/scratch.h"
#include "lib/file_io/workers.h"

namespace {

using file_io::File;
using file_io::IoConfig;
using file_io::MemorySpace;
using file_io::Segment;

/// What is measured, in this order; a word of --situations.
const std::vector<std::string>& situations() {
    static const std::vector<std::string> list = {"write", "write_synced", "read_cached", "read_cold"};
    return list;
}
bool is_write(const std::string& situation) {
    return situation.compare(0, 5, "write") == 0;
}

bool is_cufile(const std::string& method) {
    return method == "gds" || method.compare(0, 6, "cufile") == 0;
}

/// How much faster another way must be at the next size before the map changes to it.
constexpr double tie = 0.02;
/// What took this many times as long as the best at two sizes, whole blocks and all threads, is not tried
/// again.
constexpr double hopeless = 2.5;
/// What a choice by a map must reach of the rate of every other way; tenken/judge/file_cross_checks.py holds
/// it against the same.
constexpr double wanted = 0.95;
/// From this size on what a write leaves to the device is settled before the next way's turn; with fsync,
/// which would pay for it, always.
constexpr std::uint64_t settled_from = std::uint64_t{1} << 20;

std::vector<std::string> words_of(const std::string& list) {
    std::vector<std::string> words;
    std::istringstream in(list);
    std::string word;
    while (std::getline(in, word, ',')) words.push_back(word);
    return words;
}

class StorageMapProgram : public tenken::Program {
  public:
    StorageMapProgram() : gpus_(file_io::make_gpu_memory_spaces()) {}

    std::string name() const override { return "storage_map"; }
    std::string purpose() const override {
        return "Files read and written by every method, block size and number of threads over sizes, in GB/s "
               "(10^9 "
               "bytes): which way is the fastest where, as a map; and whether choosing by a map pays.";
    }

    void options(tenken::Arguments& arguments) override {
        std::vector<std::string> backends = {"host"};
        if (gpus_) backends.push_back("cuda");
        arguments.choice("backend", backend_, backends,
                         "host: data in host memory; cuda: in that of every GPU in turn");
        arguments.text("path", path_, "DIR",
                       "the folder to write in, on the file system that is asked about");
        arguments.bytes("min-bytes", minimum_, 4096, std::uint64_t{1} << 50, "the smallest size");
        arguments.bytes("max-bytes", maximum_, 4096, std::uint64_t{1} << 50, "the largest size");
        arguments.former_name("least-bytes", "min-bytes");
        arguments.former_name("most-bytes", "max-bytes");
        arguments.integer("factor", factor_, 2, 1024, "from one size to the next");
        arguments.text(
            "situations", asked_situations_, "LIST",
            "all, or some of write, write_synced (with fsync), read_cached (from the page cache), read_cold "
            "(page cache dropped before)");
        arguments.text("candidates", asked_candidates_, "LIST",
                       "all, few, or ways to try as METHOD_BLOCK_THREADS, such as posix_1mi_8,direct_16mi_4");
        arguments.integer("threads", threads_, 0, 1024,
                          "the most threads of a candidate; 0: those of OpenMP, at most 16");
        arguments.real(
            "seconds", seconds_, "s", 0, 3600,
            "timed at most for each size and situation, all candidates together; 5 rounds are made in any "
            "case");
        arguments.real("decide-seconds", decide_seconds_, "s", 0, 3600,
                       "further rounds at most for each size and situation: of ways that may be the fastest "
                       "(with --map), or that "
                       "may beat the choice (with --use-map); 8 are made in any case where there are such");
        arguments.text("map", map_file_, "FILE", "write the map to FILE");
        arguments.text("use-map", use_map_, "FILE",
                       "judge the choice by this map, of an earlier run, against every candidate");
        if (!gpus_) return;
        arguments.heading("back end cuda");
        gpus_->options(arguments);
    }

    std::vector<tenken::FaultKind> faults() const override {
        return {
            {"cut-file", "a file is cut short before it is read", "cut-file", ""},
            {"slowest-map", "--map gets the slowest way of each size, which a run that uses it must notice",
             "spoil-map", "", false}};
    }

    void prepare(const tenken::Arguments& arguments) override {
        if (maximum_ < minimum_) throw arguments.error("max-bytes", "at least --min-bytes");
        for (std::uint64_t bytes = minimum_; bytes <= maximum_;
             bytes *= static_cast<std::uint64_t>(factor_)) {
            sizes_.push_back(bytes / 4096 * 4096);
        }
        if (threads_ == 0) {
            threads_ = std::min(16, file_io::usable_threads());
        }
        chosen_situations_ = asked_situations_ == "all" ? situations() : words_of(asked_situations_);
        for (const std::string& one : chosen_situations_) {
            if (std::find(situations().begin(), situations().end(), one) == situations().end()) {
                throw arguments.error("situations",
                                      "all, or some of write,write_synced,read_cached,read_cold");
            }
        }
        if (chosen_situations_.empty()) throw arguments.error("situations", "at least one");
        if (asked_candidates_ != "all" && asked_candidates_ != "few") {
            for (const std::string& one : words_of(asked_candidates_)) {
                try {
                    given_.push_back(IoConfig::of(one));
                } catch (const std::invalid_argument& error) {
                    throw arguments.error("candidates", std::string("all, few, or a list: ") + error.what());
                }
                if (given_.back().threads > threads_) {
                    throw arguments.error(
                        "candidates", "ways of at most " + std::to_string(threads_) + " threads (--threads)");
                }
            }
            if (given_.empty()) throw arguments.error("candidates", "at least one");
        }
        if (!use_map_.empty()) {
            try {
                used_map_ = file_io::StorageMap::read(use_map_);
                for (const std::string& one : chosen_situations_) used_map_.choose(one, minimum_);
            } catch (const std::runtime_error& error) {
                throw arguments.error("use-map", std::string("a map of this program: ") + error.what());
            }
        }
        place_ = file_io::find_place(arguments, "path", path_);
        file_io::require_space(arguments, "path", place_, 2 * maximum_ + (std::uint64_t{1} << 20),
                               "two files of " + tenken::format_bytes(maximum_));
        if (backend_ == "host") {
            const std::uint64_t available = tenken::available_memory_bytes() / 10 * 9;
            if (maximum_ > available) {
                throw arguments.error(
                    "max-bytes", "at most " + tenken::format_bytes(available) + ": what is free on the host");
            }
        } else {
            gpus_->prepare(arguments);
            gpus_->require_fit(arguments, "max-bytes", maximum_, "the data");
        }
        if (writes_wrong_map() && map_file_.empty()) {
            throw arguments.error("inject-fault", "slowest-map in a run with --map only");
        }
        if (map_file_.empty()) return;
        try {
            map_document_.reset(new tenken::DocumentFile(map_file_, "--map"));
        } catch (const std::runtime_error& error) {
            throw tenken::ArgumentError(error.what());
        }
    }

    void measure(tenken::Run& run) override {
        run_ = &run;
        tenken::Document& document = run.document;
        document.build.backends = {"host"};
        if (gpus_) document.build.backends.push_back("cuda");
        document.path("backend", backend_);
        place_.describe(document);
        document.path(
            "timed",
            "from the first byte asked for to the last one moved; opening and closing are not in it");
        if (backend_ == "host") {
            const std::unique_ptr<MemorySpace> space =
                file_io::make_host_memory_space(static_cast<int>(threads_));
            measure_on(*space);
        } else {
            gpus_->each(static_cast<int>(threads_), place_.folder,
                        [&](MemorySpace& space) { measure_on(space); });
        }
        document.placement = tenken::find_placement();
        if (gpus_ && backend_ != "host") gpus_->report(document);
        if (map_document_ && document.status() == tenken::Status::ok) {
            map_document_->write(
                (writes_wrong_map() ? wrong_map_ : map_)
                    .text({"made on " + place_.mount.file_system + " at " + place_.mount.point + " (" +
                               place_.mount.source + "), back end " + backend_ + ", " + tenken::utc_now(),
                           "a way is kept from size to size unless another is 2 % faster"}));
        }
        map_document_.reset();
    }

  private:
    bool writes_wrong_map() const { return injected_fault() == "slowest-map"; }

    typedef std::vector<double> Seconds;

    /// One candidate while it is tried at one size.
    struct Trial {
        IoConfig config;
        std::unique_ptr<file_io::IoBackend> io_backend;
        std::unique_ptr<File> file;
    };

    /// What the sizes before have told of a situation.
    struct Known {
        std::map<std::string, int> behind;  ///< by name of a candidate: at how many sizes in a row
        std::string preferred;              ///< the candidate that was chosen at the size before
    };

    std::vector<IoConfig> candidates_for(MemorySpace& space) {
        const std::vector<std::string> can = space.methods();
        const auto offers = [&](const std::string& method) {
            if (method == "direct" || method == "gds" || method == "cufile_compat") {
                if (place_.direct_refused) return false;
            }
            return std::find(can.begin(), can.end(), method) != can.end();
        };
        std::vector<IoConfig> list;
        if (!given_.empty()) {
            for (const IoConfig& one : given_) {
                if (one.method == "gds" && !offers("gds")) {
                    throw tenken::Waived(tenken::Waiver::no_gpudirect_storage,
                                         "cuFile does not go straight to this file system");
                }
                if (one.method == "direct" && place_.direct_refused) {
                    throw tenken::Waived(
                        tenken::Waiver::not_supported_by_the_file_system,
                        "O_DIRECT on " + place_.mount.file_system + ": " + *place_.direct_refused);
                }
                if (!offers(one.method)) {
                    throw tenken::Waived(
                        tenken::Waiver::library_missing,
                        "there is no method " + one.method + " on " + space.name() + " here");
                }
                list.push_back(one);
            }
            return list;
        }
        const int maximum = static_cast<int>(threads_);
        const auto add = [&](const std::string& method, std::uint64_t block, int threads) {
            const IoConfig one = {method, block, std::min(threads, maximum)};
            if (offers(method) && std::find(list.begin(), list.end(), one) == list.end()) list.push_back(one);
        };
        const std::uint64_t kib = 1024;
        const std::uint64_t mib = 1024 * kib;
        add("posix", 4 * kib, 1);
        if (asked_candidates_ == "few") {
            add("posix", mib, 1);
            add("posix", 2 * mib, 8);
            add("direct", mib, 1);  // a single disk is busy with one large request
            add("direct", 4 * mib, 8);
        } else {
            for (std::uint64_t block : {256 * kib, mib, 4 * mib}) add("posix", block, 1);
            for (std::uint64_t block : {256 * kib, mib}) add("posix", block, 4);
            for (std::uint64_t block : {mib, 2 * mib}) add("posix", block, 8);
            add("posix", 2 * mib, maximum);
            add("mapped", mib, 1);
            add("mapped", mib, 8);
            for (std::uint64_t block : {mib, 16 * mib}) add("direct", block, 1);
            for (std::uint64_t block : {mib, 4 * mib, 16 * mib}) add("direct", block, 8);
        }
        for (const char* method : {"gds", "cufile_compat", "cufile_compat_buffered"}) {
            add(method, 4 * mib, 1);
            if (asked_candidates_ != "few") add(method, 16 * mib, 1);
            add(method, 16 * mib, 8);
        }
        return list;
    }

    void measure_on(MemorySpace& space) {
        const std::vector<IoConfig> candidates = candidates_for(space);
        const std::vector<std::string> can = space.methods();
        for (const file_io::StorageMap::Entry& entry : used_map_.entries()) {
            if (std::find(can.begin(), can.end(), entry.config.method) != can.end()) continue;
            throw std::runtime_error("the map " + use_map_ + " chooses " + entry.config.name() +
                                     ", and there is no " + entry.config.method + " on " + space.name() +
                                     " here");
        }
        memory_ = space.allocate(maximum_);
        known_.clear();
        // Sizes outermost: what large writes leave to the device would otherwise meet the smallest ones.
        for (std::uint64_t bytes : sizes_) {
            for (const std::string& situation : chosen_situations_) {
                at_size(space, situation, bytes, candidates);
            }
        }
        if (!space.is_host()) against_link(space);
        memory_.reset();
    }

    /// The candidates that differ at this size and are not known to be hopeless.
    static std::vector<IoConfig> different(const std::vector<IoConfig>& candidates, std::uint64_t bytes,
                                           const std::map<std::string, int>& counts) {
        std::vector<IoConfig> list;
        for (const IoConfig& one : candidates) {
            const IoConfig fitted = one.fitted(bytes);
            const auto behind = counts.find(one.name());
            if (behind != counts.end() && behind->second >= 2) continue;
            if (std::find(list.begin(), list.end(), fitted) == list.end()) list.push_back(fitted);
        }
        return list;
    }

    void at_size(MemorySpace& space, const std::string& situation, std::uint64_t bytes,
                 const std::vector<IoConfig>& candidates) {
        const std::vector<IoConfig> tried = different(candidates, bytes, known_[situation].behind);
        std::vector<IoConfig> configs = tried;
        std::size_t chosen = configs.size();
        if (!use_map_.empty()) {
            const IoConfig choice = used_map_.choose(situation, bytes).config.fitted(bytes);
            chosen =
                static_cast<std::size_t>(std::find(configs.begin(), configs.end(), choice) - configs.begin());
            if (chosen == configs.size()) configs.push_back(choice);
        }
        const file_io::RunFolder folder(place_.folder, "storage_map");
        space.fill(memory_.get(), bytes / 4, values_);
        std::vector<Trial> trials;
        const std::string read_path = folder.file("read");
        const file_io::ScratchFile reading(read_path);
        if (!is_write(situation)) make_file(space, reading.path(), bytes);
        const file_io::ScratchFile writing(folder.file("written"));
        for (const IoConfig& config : configs) {
            Trial trial;
            trial.config = config;
            trial.io_backend = space.io_backend(config);
            if (!is_write(situation)) {
                trial.file.reset(
                    new File(reading.path(), File::Mode::read, trial.io_backend->needs_direct()));
                trial.io_backend->attach(*trial.file);
            }
            trials.push_back(std::move(trial));
        }
        file_io::Rounds rounds;
        rounds.maximum = run_->repetitions;
        rounds.minimum = std::min<long>(5, rounds.maximum);
        rounds.seconds = seconds_;
        rounds.seed = static_cast<std::uint32_t>(bytes / 4096);
        lowest_cached_ = 1;
        highest_cold_ = 0;
        space.begin_timed();
        const file_io::Once once = [&](std::size_t i, long round) {
            if (!is_write(situation)) return read_once(space, situation, trials[i], bytes, round == 0);
            const double seconds = write_once(space, situation, trials[i], writing, bytes, round == 0);
            if (bytes >= settled_from || situation == "write_synced") folder.settle();
            return seconds;
        };
        file_io::Times seconds = file_io::run_rounds(configs.size(), rounds, once);
        file_io::Deciding limit;
        limit.seconds = decide_seconds_;
        limit.seed = rounds.seed + 1;
        file_io::Judgement judgement;
        file_io::Finalists finalists;
        if (use_map_.empty()) {
            finalists = file_io::find_fastest(seconds, tie, limit, once);
        } else {
            judgement = file_io::judge_choice(seconds, chosen, wanted, limit, once);
        }
        space.end_timed();
        for (Trial& trial : trials) {
            if (trial.file) trial.io_backend->detach(*trial.file);
        }
        note_cache(situation, bytes);
        // Times of the choice that is no candidate here do not enter the map, nor the best way.
        const file_io::Times of_tried(seconds.begin(), seconds.begin() + static_cast<long>(tried.size()));
        evaluate(space, situation, bytes, tried, candidates, of_tried, finalists);
        if (!use_map_.empty()) tell(space, situation, bytes, configs, chosen, seconds, judgement);
    }

    void make_file(MemorySpace& space, const std::string& path, std::uint64_t bytes) {
        File file(path, File::Mode::create, false);
        const std::unique_ptr<file_io::IoBackend> io_backend =
            space.io_backend(IoConfig{"posix", 1 << 20, 1}.fitted(bytes));
        io_backend->write(file, {{0, bytes, memory_.get()}});
        file.sync();
        if (run_->fault == tenken::Fault::element && !fault_made_) file_io::flip_bit(file, bytes / 2);
        fault_made_ = true;
        if (injected_fault() == "cut-file" &&
            ftruncate(file.descriptor(), static_cast<off_t>(bytes / 2)) != 0) {
            throw file_io::FileError("cannot cut " + path);
        }
    }

    /// A new file each time, as a program that writes results has it: pages and places on the device are new.
    double write_once(MemorySpace& space, const std::string& situation, Trial& trial,
                      const file_io::ScratchFile& scratch, std::uint64_t bytes, bool verify) {
        File file(scratch.path(), File::Mode::create, trial.io_backend->needs_direct());
        trial.io_backend->attach(file);
        const double begin = tenken::now_seconds();
        trial.io_backend->write(file, {{0, bytes, memory_.get()}});
        if (situation == "write_synced") file.sync();
        const double seconds = tenken::now_seconds() - begin;
        trial.io_backend->detach(file);
        if (verify) {
            if (run_->fault == tenken::Fault::element && !fault_made_) file_io::flip_bit(file, bytes / 2);
            fault_made_ = true;
            add_check(space, situation, trial.config, bytes, scratch.path(),
                      file_io::compare_file(file, 0, bytes / 4, values_));
        }
        unlink(scratch.path().c_str());
        return seconds;
    }

    double read_once(MemorySpace& space, const std::string& situation, Trial& trial, std::uint64_t bytes,
                     bool verify) {
        File& file = *trial.file;
        if (situation == "read_cold") {
            highest_cold_ = std::max(highest_cold_, file.drop_cache());
        } else {
            lowest_cached_ = std::min(lowest_cached_, warm(file, bytes));
        }
        if (verify) space.clear(memory_.get(), bytes);
        const double begin = tenken::now_seconds();
        trial.io_backend->read(file, {{0, bytes, memory_.get()}});
        space.wait();
        const double seconds = tenken::now_seconds() - begin;
        if (verify) {
            add_check(space, situation, trial.config, bytes, file.path(),
                      space.compare(memory_.get(), bytes / 4, values_));
        }
        return seconds;
    }

    /// Brings a file into the page cache. @return the part of it that is there then
    static double warm(File& file, std::uint64_t bytes) {
        const double share = file.cached_share();
        if (share == 1) return share;
        std::vector<char> piece(std::size_t{1} << 20);
        for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
            file.read(file_io::Access::buffered, at,
                      static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), bytes - at)),
                      piece.data());
        }
        return file.cached_share();
    }

    /// One line of the verification for each size and situation: its ways together.
    void add_check(MemorySpace& space, const std::string& situation, const IoConfig& config,
                   std::uint64_t bytes, const std::string& path, const file_io::Mismatch& mismatch) {
        run_->document.add(file_io::check_of(
            mismatch,
            situation + " of " + file_io::short_bytes(bytes) + " by " + config.name() + " on " + space.name(),
            path, 0, mismatch.first));
    }

    void note_cache(const std::string& situation, std::uint64_t bytes) {
        const std::string size = file_io::short_bytes(bytes);
        if (situation == "read_cached" && lowest_cached_ < 1) {
            run_->document.path("not_cached." + size, 1 - lowest_cached_);
        }
        if (situation == "read_cold" && highest_cold_ > 0) {
            run_->document.path("still_cached." + size, highest_cold_);
        }
    }

    tenken::Metric metric(MemorySpace& space, const std::string& name, std::uint64_t bytes) const {
        tenken::Metric one;
        one.name = name;
        one.subject = space.subject();
        one.unit = "GB/s";
        one.at = {{"bytes", tenken::Json(bytes)}};
        return one;
    }

    void evaluate(MemorySpace& space, const std::string& situation, std::uint64_t bytes,
                  const std::vector<IoConfig>& tried, const std::vector<IoConfig>& candidates,
                  const file_io::Times& seconds, const file_io::Finalists& finalists) {
        tenken::Document& document = run_->document;
        Known& known = known_[situation];
        std::vector<double> medians;
        for (std::size_t i = 0; i < tried.size(); ++i) {
            tenken::Metric one = metric(space, situation, bytes);
            one.at.push_back({"way", tenken::Json(tried[i].name())});
            one.samples = tenken::giga_per_second(static_cast<double>(bytes), seconds[i]);
            document.add(one, space.link_limit());
            medians.push_back(tenken::order_statistics(seconds[i], tenken::Direction::lower).median);
        }
        const double lowest = *std::min_element(medians.begin(), medians.end());
        for (const IoConfig& one : candidates) {
            const auto at = std::find(tried.begin(), tried.end(), one);
            if (at == tried.end()) continue;  // at this size it was another one
            int& behind = known.behind[one.name()];
            behind =
                medians[static_cast<std::size_t>(at - tried.begin())] > hopeless * lowest ? behind + 1 : 0;
        }
        // What was chosen at the size before is kept while it is as good: as its candidate is at this size.
        std::size_t preferred = tried.size();
        for (const IoConfig& one : candidates) {
            if (one.name() != known.preferred) continue;
            const auto at = std::find(tried.begin(), tried.end(), one.fitted(bytes));
            preferred = static_cast<std::size_t>(at - tried.begin());
        }
        // Run B has no finalists: its best way is the one with the lowest median.
        const std::size_t best =
            finalists.configs.empty()
                ? static_cast<std::size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin())
                : file_io::choose_fastest(finalists, preferred, tie);
        for (const IoConfig& one : candidates) {
            if (one.fitted(bytes) == tried[best] && (best != preferred || one.name() == known.preferred)) {
                known.preferred = one.name();
                break;
            }
        }
        tenken::Metric chosen = metric(space, "best_" + situation, bytes);
        chosen.at.push_back({"way", tenken::Json(tried[best].name())});
        chosen.samples = tenken::giga_per_second(static_cast<double>(bytes), seconds[best]);
        document.add(chosen, space.link_limit());
        map_.add({situation, bytes, IoConfig::of(known.preferred),
                  static_cast<double>(bytes) / medians[best] / 1e9});
        if (writes_wrong_map()) {
            const std::size_t slowest =
                static_cast<std::size_t>(std::max_element(medians.begin(), medians.end()) - medians.begin());
            wrong_map_.add(
                {situation, bytes, tried[slowest], static_cast<double>(bytes) / medians[slowest] / 1e9});
        }
        // The first way of cuFile is the one of an application that always takes it; the fastest one may
        // differ.
        std::size_t cufile = tried.size();
        double fastest_cufile = 0;
        for (std::size_t i = 0; i < tried.size(); ++i) {
            if (!is_cufile(tried[i].method)) continue;
            if (cufile == tried.size()) cufile = i;
            if (fastest_cufile == 0 || medians[i] < fastest_cufile) fastest_cufile = medians[i];
        }
        const auto copies = std::find(tried.begin(), tried.end(), IoConfig{"posix", 4096, 1});
        if (cufile < tried.size() && copies != tried.end()) {
            add_ratio(space, "copy_over_cufile", situation, bytes,
                      fastest_cufile / medians[static_cast<std::size_t>(copies - tried.begin())]);
        }
        always_cufile_ = cufile < tried.size() ? medians[cufile] : 0;
    }

    void add_ratio(MemorySpace& space, const std::string& name, const std::string& situation,
                   std::uint64_t bytes, double value) {
        tenken::Metric ratio = metric(space, name, bytes);
        ratio.unit = "1";
        ratio.statistic = tenken::Statistic::total;
        ratio.at.push_back({"situation", tenken::Json(situation)});
        ratio.samples = {value};
        run_->document.add(ratio, tenken::Limit::unknown("a ratio"));
    }

    /// What the choice by the map gave, and what became of it beside the others.
    void tell(MemorySpace& space, const std::string& situation, std::uint64_t bytes,
              const std::vector<IoConfig>& configs, std::size_t chosen, const file_io::Times& seconds,
              const file_io::Judgement& judgement) {
        tenken::Document& document = run_->document;
        tenken::Metric by_map = metric(space, "adaptive", bytes);
        by_map.at.push_back({"situation", tenken::Json(situation)});
        by_map.samples = tenken::giga_per_second(static_cast<double>(bytes), seconds[chosen]);
        document.add(by_map, space.link_limit());
        tenken::Metric ratio = metric(space, "adaptive_over_best", bytes);
        ratio.unit = "1";
        ratio.at.push_back({"situation", tenken::Json(situation)});
        ratio.samples = judgement.ratios;
        typedef file_io::Judgement::Outcome Outcome;
        if (judgement.outcome == Outcome::alone) ratio.samples.assign(seconds[chosen].size(), 1.0);
        document.add(ratio, tenken::Limit::unknown("a ratio"));
        const file_io::StorageMap::Entry& entry = used_map_.choose(situation, bytes);
        if (entry.bytes == bytes && entry.gbs > 0) {
            tenken::Metric since = metric(space, "adaptive_over_map", bytes);
            since.unit = "1";
            since.at = ratio.at;
            for (double rate : by_map.samples) since.samples.push_back(rate / entry.gbs);
            document.add(since, tenken::Limit::unknown("a ratio"));
        }
        if (always_cufile_ > 0) {
            add_ratio(
                space, "adaptive_over_cufile", situation, bytes,
                always_cufile_ / tenken::order_statistics(seconds[chosen], tenken::Direction::lower).median);
        }
        document.path("choice." + situation + "." + file_io::short_bytes(bytes) + "." + space.name(),
                      configs[chosen].name() + ": " + text_of(judgement, configs));
    }

    static std::string text_of(const file_io::Judgement& judgement, const std::vector<IoConfig>& configs) {
        typedef file_io::Judgement::Outcome Outcome;
        if (judgement.outcome == Outcome::alone) return "the only way";
        std::ostringstream text;
        text.precision(3);
        text << (judgement.outcome == Outcome::held     ? "held"
                 : judgement.outcome == Outcome::missed ? "behind"
                                                        : "undecided")
             << ", " << judgement.interval.median << " (" << judgement.interval.low << " to "
             << judgement.interval.high << ") of " << configs[judgement.rival].name() << " in "
             << judgement.ratios.size() << (judgement.rivals > 0 ? " pairs" : " rounds");
        if (judgement.rivals > 0) text << ", " << judgement.rivals << " rivals measured anew";
        if (judgement.left > 0) text << ", " << judgement.left << " left open";
        return text.str();
    }

    /// Whether page-locked buffers and several threads bring a cached file to the GPU as fast as the slower
    /// of the link and those threads by themselves.
    void against_link(MemorySpace& space) {
        if (std::find(chosen_situations_.begin(), chosen_situations_.end(), "read_cached") ==
            chosen_situations_.end()) {
            return;
        }
        const std::uint64_t bytes = sizes_.back();
        const double link = space.link_rate(true);
        run_->document.path("link_to_memory_gbs." + space.name(), link);
        run_->document.path("link_from_memory_gbs." + space.name(), space.link_rate(false));
        const file_io::RunFolder folder(place_.folder, "storage_map");
        const file_io::ScratchFile scratch(folder.file("read"));
        space.fill(memory_.get(), bytes / 4, values_);
        fault_made_ = true;
        make_file(space, scratch.path(), bytes);
        std::vector<IoConfig> configs;
        for (const IoConfig& config :
             {IoConfig{"posix", std::uint64_t{1} << 20, 8}, IoConfig{"posix", 2 << 20, 8},
              IoConfig{"posix", 4 << 20, 8}, IoConfig{"posix", 2 << 20, 16}}) {
            IoConfig one = config.fitted(bytes);
            one.threads = std::min(one.threads, static_cast<int>(threads_));
            if (std::find(configs.begin(), configs.end(), one) == configs.end()) configs.push_back(one);
        }
        std::vector<Trial> trials;
        for (const IoConfig& config : configs) {
            Trial trial;
            trial.config = config;
            trial.io_backend = space.io_backend(config);
            trial.file.reset(new File(scratch.path(), File::Mode::read, false));
            trials.push_back(std::move(trial));
        }
        file_io::Rounds rounds;
        rounds.minimum = 7;
        rounds.maximum = 50;
        rounds.seconds = std::max(seconds_, 1.0);
        rounds.keep = 0;
        // Even numbers read to the GPU, odd ones to the buffers alone.
        const std::vector<Seconds> seconds =
            file_io::run_rounds(2 * configs.size(), rounds, [&](std::size_t i, long round) {
                Trial& trial = trials[i / 2];
                warm(*trial.file, bytes);
                if (i % 2 == 1) {
                    return static_cast<double>(bytes) / 1e9 /
                           space.cached_rate(*trial.file, bytes, trial.config);
                }
                return read_once(space, "read_cached", trial, bytes, round == 0);
            });
        for (std::size_t i = 0; i < configs.size(); ++i) {
            const auto rates = [&](std::size_t which) {
                return tenken::giga_per_second(static_cast<double>(bytes), seconds[which]);
            };
            tenken::Metric to_gpu = metric(space, "pinned_read", bytes);
            to_gpu.at.push_back({"way", tenken::Json(configs[i].name())});
            to_gpu.samples = rates(2 * i);
            tenken::Metric to_host = metric(space, "cached_read", bytes);
            to_host.at = to_gpu.at;
            to_host.samples = rates(2 * i + 1);
            run_->document.add(to_gpu, space.link_limit());
            run_->document.add(to_host,
                               tenken::Limit::unknown("the page cache is memory shared with all that runs"));
            tenken::Metric ratio = metric(space, "pinned_read_over_least", bytes);
            ratio.unit = "1";
            ratio.statistic = tenken::Statistic::total;
            ratio.at = to_gpu.at;
            const auto median = [](const std::vector<double>& samples) {
                return tenken::order_statistics(samples, tenken::Direction::higher).median;
            };
            ratio.samples = {median(to_gpu.samples) / std::min(link, median(to_host.samples))};
            run_->document.add(ratio, tenken::Limit::unknown("a ratio"));
        }
    }

    std::unique_ptr<file_io::GpuMemorySpaces> gpus_;
    std::string backend_ = "host";
    std::string path_ = ".";
    std::uint64_t minimum_ = 4096;
    std::uint64_t maximum_ = std::uint64_t{64} << 20;
    std::int64_t factor_ = 4;
    std::string asked_situations_ = "all";
    std::string asked_candidates_ = "all";
    std::int64_t threads_ = 0;
    double seconds_ = 1;
    double decide_seconds_ = 5;
    std::string map_file_;
    std::string use_map_;

    std::vector<std::uint64_t> sizes_;
    std::vector<std::string> chosen_situations_;
    std::vector<IoConfig> given_;
    file_io::Place place_;
    std::unique_ptr<tenken::DocumentFile> map_document_;
    file_io::StorageMap used_map_;
    file_io::StorageMap map_;
    file_io::StorageMap wrong_map_;
    tenken::Run* run_ = nullptr;
    file_io::Memory memory_;
    const file_io::Words values_ = {7, file_io::Words::floats};
    std::map<std::string, Known> known_;  ///< by situation
    double always_cufile_ = 0;  ///< median seconds of the first way of cuFile at this size; 0: there is none
    bool fault_made_ = false;
    double lowest_cached_ = 1;
    double highest_cold_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    int code = 0;
    if (file_io::is_gds_probe(argc, argv, code)) return code;
    StorageMapProgram program;
    return tenken::run_program(program, argc, argv);
}
