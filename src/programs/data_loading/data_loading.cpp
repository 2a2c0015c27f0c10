// Training data loaded by threads while a step computes, as in a training loop.
#include "programs/data_loading/data_loading.h"

#include <algorithm>
#include <atomic>

#include "catalogue/data_loading.h"
#include "lib/base/clock.h"
#include "lib/base/passes.h"
#include "lib/file_io/check_file.h"
#include "lib/file_io/gds_probe.h"
#include "programs/data_loading/loader.h"
#include "programs/data_loading/reader.h"

namespace data_loading {

using file_io::File;

void DataLoading::measure(tenken::Run& run) {
    begin(run);
    tenken::Document& document = run.document;
    document.path("hdf5", library_ ? "HDF5 " + library_->version() : "none: " + why_no_hdf5_);
    on_each_space(1, static_cast<int>(threads_), [&](MemorySpace& space) { measure_on(space); });
    if (highest_cold_ > 0) document.path("still_cached", highest_cold_);
    if (lowest_cached_ < 1) document.path("not_cached", 1 - lowest_cached_);
    end();
}

void DataLoading::measure_on(MemorySpace& space) {
    const std::vector<IoConfig> list = ways(space);
    for (const Kind& kind : kinds_) measure_kind(space, kind, list);
}

std::string DataLoading::path_of(std::size_t sample, const IoConfig& config) const {
    return folder_->file("sample" + std::to_string(sample) + (by_hdf5(config.method) ? ".h5" : ".bin"));
}

void DataLoading::measure_kind(MemorySpace& space, const Kind& kind, const std::vector<IoConfig>& list) {
    const file_io::RunFolder folder(place_.folder, "data_loading");
    folder_ = &folder;
    write_samples(kind, list);
    const std::size_t batch = batch_of(kind);
    ring_.clear();
    for (std::size_t i = 0; i < largest_ring(); ++i) {
        ring_.push_back(space.allocate(batch * stride_of(kind)));
    }
    const std::unique_ptr<Consumer> consumer =
        space.is_host() ? make_host_consumer() : make_gpu_consumer(batch);
    calibrate(space, kind, *consumer);
    std::vector<Trial> trials;
    for (const IoConfig& config : list) {
        for (std::size_t ahead : ahead_) {
            Trial trial;
            trial.config = config;
            trial.ahead = ahead;
            trials.push_back(trial);
        }
    }
    file_io::Rounds rounds;
    rounds.maximum = run_->repetitions;
    rounds.minimum = std::min<long>(3, rounds.maximum);
    rounds.seconds = seconds_;
    rounds.keep = 0;
    space.begin_timed();
    const file_io::Times times = file_io::run_rounds(trials.size(), rounds, [&](std::size_t i, long round) {
        return load(space, kind, *consumer, trials[i], round);
    });
    space.end_timed();
    report(space, kind, trials, times);
    ring_.clear();
    folder_ = nullptr;
}

void DataLoading::write_samples(const Kind& kind, const std::vector<IoConfig>& list) {
    const std::unique_ptr<MemorySpace> host = file_io::make_host_memory_space(1);
    const file_io::Memory memory = host->allocate(kind.largest());
    bool with_hdf5 = false;
    bool without = false;
    for (const IoConfig& one : list) (by_hdf5(one.method) ? with_hdf5 : without) = true;
    expected_.clear();
    offsets_.clear();
    for (std::size_t sample = 0; sample < samples_of(kind); ++sample) {
        const std::uint64_t bytes = kind.bytes_of(sample);
        host->fill(memory.get(), bytes / 4, content_of(sample));
        expected_.push_back(expected_checksum(sample, bytes));
        const bool flip = run_->fault == tenken::Fault::element && sample == 0;
        if (without) {
            File file(path_of(sample, IoConfig{"posix"}), File::Mode::create, false);
            file.write(file_io::Access::buffered, 0, bytes, memory.get());
            if (flip) file_io::flip_bit(file, bytes / 2);
        }
        if (with_hdf5) {
            const std::string path = path_of(sample, IoConfig{"hdf5"});
            const std::uint64_t offset = write_hdf5(*library_, path, bytes, memory.get());
            offsets_.push_back(offset);
            if (!flip) continue;
            File file(path, File::Mode::modify, false);
            file_io::flip_bit(file, offset + bytes / 2);
        }
    }
    folder_->settle();
}

tenken::Json DataLoading::look_at(const Kind& kind, std::size_t sample, const IoConfig& config,
                                  const std::string& when) const {
    const File file(path_of(sample, config), File::Mode::read, false);
    const std::uint64_t offset = by_hdf5(config.method) ? offsets_[sample] : 0;
    const file_io::Mismatch mismatch =
        file_io::compare_file(file, offset, kind.bytes_of(sample) / 4, content_of(sample));
    if (mismatch.count > 0)
        return check_of(mismatch, catalogue::checksum(), file.path(), offset, mismatch.first).first_wrong;
    tenken::Json wrong = tenken::Json::object();
    wrong.set("file", file.path()).set("as_written", true).set("read_in", when);
    return file_io::add_rank(wrong);
}

void DataLoading::prepare_cache(const Kind& kind, const IoConfig& config) {
    for (std::size_t sample = 0; sample < samples_of(kind); ++sample) {
        File file(path_of(sample, config), File::Mode::read, false);
        if (cold_) {
            highest_cold_ = std::max(highest_cold_, file.drop_cache());
            continue;
        }
        lowest_cached_ = std::min(lowest_cached_, file.warm());
    }
}

void DataLoading::calibrate(MemorySpace& space, const Kind& kind, Consumer& consumer) {
    const std::vector<std::uint64_t> words(batch_of(kind), kind.bytes / 4);
    std::vector<std::uint64_t> sums(words.size());
    for (const file_io::Memory& memory : ring_) space.clear(memory.get(), words.size() * stride_of(kind));
    const auto step_seconds = [&] {
        consumer.step(ring_[0].get(), stride_of(kind), words, sums);
        const double begin = tenken::now_seconds();
        for (int i = 0; i < 3; ++i) consumer.step(ring_[0].get(), stride_of(kind), words, sums);
        return (tenken::now_seconds() - begin) / 3;
    };
    consumer.set_passes(0);
    const double sums_alone = step_seconds();
    const double wanted = step_ms_ / 1e3;
    consumer.set_passes(wanted <= sums_alone ? 0 : tenken::passes_for(wanted, 20, [&](int passes) {
        consumer.set_passes(passes);
        return step_seconds();
    }));
    run_->document.path("step_ms." + kind.name + "." + space.name(), step_seconds() * 1e3);
    run_->document.path("checksum_ms." + kind.name + "." + space.name(), sums_alone * 1e3);
}

double DataLoading::load(MemorySpace& space, const Kind& kind, Consumer& consumer, Trial& trial, long round) {
    const std::size_t batch = batch_of(kind);
    const std::size_t samples = samples_of(kind);
    const std::size_t epochs = static_cast<std::size_t>(epochs_);
    prepare_cache(kind, trial.config);
    // Data of an earlier repetition must not be mistaken for data read by this one.
    std::vector<char*> ring;
    for (std::size_t i = 0; i <= trial.ahead; ++i) {
        if (round == 0) space.clear(ring_[i].get(), batch * stride_of(kind));
        ring.push_back(ring_[i].get());
    }
    std::vector<std::size_t> order =
        order_of(samples, epochs, !in_order_, static_cast<std::uint64_t>(round) * 1000 + trial.ahead);
    if (injected_fault() == "sample-twice" && !fault_made_) {
        order[0] = order[1];
        fault_made_ = true;
    }
    std::atomic<bool> leave_out(injected_fault() == "stale-sample" && !fault_made_);
    fault_made_ = true;
    Loader loader(
        trial.config.threads,
        [&]() -> Loader::Read {
            const std::shared_ptr<Reader> reader = make_reader(space, trial.config, kind.largest(), library_);
            return [this, reader, &kind, &trial, &leave_out](std::size_t sample, char* memory) {
                if (leave_out.exchange(false)) return;
                reader->read(path_of(sample, trial.config), kind.bytes_of(sample), memory);
            };
        },
        ring, stride_of(kind), batch);

    std::vector<std::uint64_t> words(batch);
    std::vector<std::uint64_t> sums(order.size());
    std::vector<std::uint64_t> of_batch(batch);
    double waited = 0;
    const double begin = tenken::now_seconds();
    double idle_since = begin;
    loader.begin(order);
    for (std::size_t first = 0; first < order.size(); first += batch) {
        const Batch there = loader.next();
        const double got = tenken::now_seconds();
        waited += got - idle_since;
        for (std::size_t i = 0; i < batch; ++i) words[i] = kind.bytes_of(there.samples[i]) / 4;
        consumer.step(there.memory, stride_of(kind), words, of_batch);
        std::copy(of_batch.begin(), of_batch.end(), sums.begin() + static_cast<std::ptrdiff_t>(first));
        idle_since = tenken::now_seconds();
        loader.release();
    }
    const double seconds = idle_since - begin;
    if (round > 0) trial.waits.push_back(100 * waited / seconds);

    std::vector<std::size_t> seen(samples);
    for (std::size_t i = 0; i < order.size(); ++i) {
        const std::string when =
            "repetition " + std::to_string(round) + ", epoch " + std::to_string(i / samples + 1);
        ++seen[order[i]];
        if (sums[i] != expected_[order[i]]) {
            ++trial.wrong;
            if (trial.first_wrong.is_null()) trial.first_wrong = look_at(kind, order[i], trial.config, when);
        }
        if ((i + 1) % samples != 0) continue;
        for (std::size_t sample = 0; sample < samples; ++sample) {
            if (seen[sample] == 1) continue;
            ++trial.misread;
            if (!trial.first_misread.is_null()) continue;
            trial.first_misread = tenken::Json::object();
            trial.first_misread.set("read_in", when).set("sample", sample).set("times", seen[sample]);
            file_io::add_rank(trial.first_misread);
        }
        seen.assign(samples, 0);
    }
    return seconds;
}

}  // namespace data_loading

int main(int argc, char** argv) {
    int code = 0;
    if (file_io::is_gds_probe(argc, argv, code)) return code;
    data_loading::DataLoading program;
    return tenken::run_program(program, argc, argv);
}
