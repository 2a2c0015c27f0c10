// The timed part of storage_map: every configuration at every size, in rounds, and the link.
#include <unistd.h>

#include <algorithm>

#include "lib/base/clock.h"
#include "programs/storage_map/storage_map.h"

namespace storage_map {

namespace {

bool is_write(const std::string& situation) {
    return situation.compare(0, 5, "write") == 0;
}

/// Minimum rate of a choice by a map relative to every other configuration, as in metrics.yaml.
constexpr double wanted = 0.95;
/// From this size on, pending device writes are flushed before the next configuration; with fsync, whose time
/// would include their cost, always.
constexpr std::uint64_t settled_from = std::uint64_t{1} << 20;

}  // namespace

void StorageMapProgram::measure(tenken::Run& run) {
    begin(run);
    tenken::Document& document = run.document;
    document.path("timed",
                  "from the first byte requested to the last one moved, without opening and closing");
    const int threads = static_cast<int>(threads_);
    on_each_space(threads, threads, [&](MemorySpace& space) { measure_on(space); });
    end();
    if (map_document_ && document.status() == tenken::Status::ok) {
        map_document_->write(
            (writes_wrong_map() ? wrong_map_ : map_)
                .text({"made on " + place_.mount.file_system + " at " + place_.mount.point + " (" +
                           place_.mount.source + "), back end " + backend_ + ", " + tenken::utc_now(),
                       "the method of the previous size is kept unless another is 2 % faster"}));
    }
    map_document_.reset();
}

void StorageMapProgram::measure_on(MemorySpace& space) {
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
    // Sizes are the outermost loop, since pending writes of large sizes would disturb the smallest ones.
    for (std::uint64_t bytes : sizes_) {
        for (const std::string& situation : chosen_situations_) {
            at_size(space, situation, bytes, candidates);
        }
    }
    // A run that writes a map is followed by the judged one.
    if (!space.is_host() && map_file_.empty()) against_link(space);
    memory_.reset();
}

std::vector<IoConfig> StorageMapProgram::different(const std::vector<IoConfig>& candidates,
                                                   std::uint64_t bytes,
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

void StorageMapProgram::at_size(MemorySpace& space, const std::string& situation, std::uint64_t bytes,
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
            trial.file.reset(new File(reading.path(), File::Mode::read, trial.io_backend->needs_direct()));
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
    // Times of a choice that is not a candidate here are excluded from the map and from the best
    // configuration.
    const file_io::Times of_tried(seconds.begin(), seconds.begin() + static_cast<long>(tried.size()));
    evaluate(space, situation, bytes, tried, candidates, of_tried, finalists);
    if (!use_map_.empty()) tell(space, situation, bytes, configs, chosen, seconds, judgement);
}

void StorageMapProgram::make_file(MemorySpace& space, const std::string& path, std::uint64_t bytes) {
    File file(path, File::Mode::create, false);
    const std::unique_ptr<file_io::IoBackend> io_backend =
        space.io_backend(IoConfig{"posix", 1 << 20, 1}.fitted(bytes));
    io_backend->write(file, {{0, bytes, memory_.get()}});
    file.sync();
    if (run_->fault == tenken::Fault::element && !fault_made_) file_io::flip_bit(file, bytes - 1);
    fault_made_ = true;
    if (injected_fault() == "cut-file" && ftruncate(file.descriptor(), static_cast<off_t>(bytes / 2)) != 0) {
        throw file_io::FileError("cannot cut " + path);
    }
}

double StorageMapProgram::write_once(MemorySpace& space, const std::string& situation, Trial& trial,
                                     const file_io::ScratchFile& scratch, std::uint64_t bytes, bool verify) {
    File file(scratch.path(), File::Mode::create, trial.io_backend->needs_direct());
    trial.io_backend->attach(file);
    const double begin = tenken::now_seconds();
    trial.io_backend->write(file, {{0, bytes, memory_.get()}});
    if (situation == "write_synced") file.sync();
    const double seconds = tenken::now_seconds() - begin;
    trial.io_backend->detach(file);
    if (verify) {
        if (run_->fault == tenken::Fault::element && !fault_made_) file_io::flip_bit(file, bytes - 1);
        fault_made_ = true;
        add_check(space, situation, trial.config, bytes, scratch.path(),
                  file_io::compare_file(file, 0, bytes / 4, values_));
    }
    unlink(scratch.path().c_str());
    return seconds;
}

double StorageMapProgram::read_once(MemorySpace& space, const std::string& situation, Trial& trial,
                                    std::uint64_t bytes, bool verify) {
    File& file = *trial.file;
    if (situation == "read_cold") {
        highest_cold_ = std::max(highest_cold_, file.drop_cache());
    } else {
        lowest_cached_ = std::min(lowest_cached_, file.warm());
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

void StorageMapProgram::against_link(MemorySpace& space) {
    if (std::find(chosen_situations_.begin(), chosen_situations_.end(), "read_cached") ==
        chosen_situations_.end()) {
        return;
    }
    const std::uint64_t bytes = sizes_.back();
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
    // Even numbers read to the GPU, odd ones only to the buffers.
    const std::vector<Seconds> seconds =
        file_io::run_rounds(2 * configs.size(), rounds, [&](std::size_t i, long round) {
            Trial& trial = trials[i / 2];
            trial.file->warm();
            if (i % 2 == 1) {
                return static_cast<double>(bytes) / 1e9 / space.cached_rate(*trial.file, bytes, trial.config);
            }
            return read_once(space, "read_cached", trial, bytes, round == 0);
        });
    for (std::size_t i = 0; i < configs.size(); ++i) {
        tenken::Metric to_gpu = metric(space, "pinned_read", bytes);
        to_gpu.at.push_back({"io_config", tenken::Json(configs[i].name())});
        to_gpu.timed(seconds[2 * i], {{"bytes", static_cast<double>(bytes)}});
        tenken::Metric to_host = metric(space, "cached_read", bytes);
        to_host.at = to_gpu.at;
        to_host.timed(seconds[2 * i + 1], {{"bytes", static_cast<double>(bytes)}});
        run_->document.add(to_gpu);
        run_->document.add(to_host);
    }
}

}  // namespace storage_map
