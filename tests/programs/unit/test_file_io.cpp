// The common part of programs that move data between memory and files.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "lib/base/clock.h"
#include "lib/file_io/check_file.h"
#include "lib/file_io/memory_space.h"
#include "lib/file_io/particles.h"
#include "lib/file_io/place.h"
#include "lib/file_io/ready_thread.h"
#include "lib/file_io/rounds.h"
#include "lib/file_io/scratch.h"
#include "lib/file_io/storage_map.h"
#include "lib/file_io/workers.h"
#include "unit.h"

using file_io::IoConfig;

TEST(candidates_have_names_that_read_back) {
    for (const char* name :
         {"posix_4ki_1", "direct_16mi_8", "cufile_compat_buffered_1gi_1024", "gds_12ki_3"}) {
        CHECK_EQUAL(IoConfig::of(name).name(), name);
    }
    CHECK(IoConfig::of("cufile_compat_4mi_2").method == "cufile_compat");
    for (const char* wrong : {"", "posix", "posix_4ki", "posix_4kb_1", "posix_4ki_0", "posix_4ki_1x",
                              "posix_100_1", "posix_2048_1", "posix_2gi_1", "_4Ki_1", "posix__1"}) {
        CHECK(!unit::thrown<std::invalid_argument>([&] { IoConfig::of(wrong); }).empty());
    }
}

TEST(a_candidate_is_fitted_to_few_bytes) {
    const IoConfig large = IoConfig::of("posix_16mi_8");
    CHECK_EQUAL(large.fitted(4096).name(), "posix_4ki_1");
    CHECK_EQUAL(large.fitted(5000).name(), "posix_8ki_1");
    CHECK_EQUAL(large.fitted(std::uint64_t{40} << 20).name(), "posix_16mi_3");
    CHECK_EQUAL(large.fitted(std::uint64_t{1} << 30).name(), "posix_16mi_8");
}

TEST(blocks_cover_every_byte_of_every_segment_once) {
    static char memory[16384];
    const std::vector<file_io::Segment> segments = {
        {4096, 10000, memory}, {20480, 0, memory}, {40960, 8192, memory}};
    const file_io::Blocks blocks(segments, 4096);
    CHECK(blocks.count() == 5);
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < blocks.count(); ++i) bytes += blocks.at(i).bytes;
    CHECK(bytes == 18192);
    CHECK(blocks.at(2).offset == 4096 + 8192 && blocks.at(2).bytes == 10000 - 8192);
    CHECK(blocks.at(2).memory == memory + 8192);
    CHECK(blocks.at(3).offset == 40960 && blocks.at(4).offset == 45056);
}

TEST(the_mount_of_a_path_is_the_nearest_one_above) {
    const std::string mounts =
        "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "30 22 0:5 / /work rw,noatime shared:3 - lustre 10.0.0.1@o2ib:/work rw,flock\n"
        "31 30 0:6 / /work/my\\040files rw - tmpfs none rw,size=4k\n"
        "32 22 0:7 / /workshop rw - xfs /dev/sdb rw\n"
        "nonsense\n";
    CHECK_EQUAL(file_io::find_mount(mounts, "/work/a/b")->file_system, "lustre");
    CHECK_EQUAL(file_io::find_mount(mounts, "/work/a/b")->options, "rw,noatime,rw,flock");
    CHECK_EQUAL(file_io::find_mount(mounts, "/work/my files")->file_system, "tmpfs");
    CHECK_EQUAL(file_io::find_mount(mounts, "/workshop/x")->source, "/dev/sdb");
    CHECK_EQUAL(file_io::find_mount(mounts, "/works")->file_system, "ext4");
    CHECK(!file_io::find_mount("", "/work"));
    // a later one on the same point hides it
    const std::string hidden = mounts + "33 30 0:8 / /work rw - nfs server:/work rw\n";
    CHECK_EQUAL(file_io::find_mount(hidden, "/work/a")->file_system, "nfs");
    // in a chroot the root is not a mount: its type is known, and nothing is stated as an empty text
    CHECK_EQUAL(file_io::unlisted_mount(0xEF53).file_system, "ext4");
    CHECK_EQUAL(file_io::unlisted_mount(0x01021994).file_system, "tmpfs");
    CHECK_EQUAL(file_io::unlisted_mount(1).file_system, "unknown");
    CHECK(!file_io::unlisted_mount(1).point.empty() && !file_io::unlisted_mount(1).options.empty());
    CHECK(!file_io::unlisted_mount(1).source.empty());
}

TEST(words_of_the_layouts_are_each_others_inverse) {
    for (file_io::Layout layout : {file_io::Layout::asis, file_io::Layout::hyperslab}) {
        for (int d = 0; d < file_io::datasets; ++d) {
            const unsigned columns = datasets_of(layout)[d].words();
            for (std::uint64_t w = 0; w < 50 * columns; ++w) {
                const file_io::WordAt there = source_of(layout, d, w);
                const file_io::WordAt back = place_of(layout, there.array, there.word);
                CHECK(back.array == d && back.word == w);
            }
        }
    }
}

TEST(packing_gives_the_words_of_the_datasets) {
    const std::unique_ptr<file_io::MemorySpace> space = file_io::make_host_memory_space(3);
    const file_io::Particles content = {9};
    const std::uint64_t n = 200001;
    file_io::Memory memory[8];
    file_io::Quartet arrays;
    file_io::Quartet packed;
    for (int i = 0; i < 4; ++i) {
        memory[i] = space->allocate(n * file_io::array_words[i] * 4);
        arrays.at[i] = memory[i].get();
        space->fill(arrays.at[i], n * file_io::array_words[i], content.words(i));
        memory[4 + i] = space->allocate(n * 12);
        packed.at[i] = memory[4 + i].get();
    }
    space->pack(arrays, packed, n);
    for (int d = 0; d < 3; ++d) {
        const file_io::DatasetWords expected = {content, file_io::Layout::hyperslab, d};
        CHECK(file_io::compare_on_host(reinterpret_cast<const std::uint32_t*>(packed.at[d]),
                                       n * datasets_of(file_io::Layout::hyperslab)[d].words(), expected)
                  .count == 0);
    }
    for (int i = 0; i < 3; ++i) space->clear(arrays.at[i], n * file_io::array_words[i] * 4);
    space->unpack(packed, arrays, n);
    for (int i = 0; i < 4; ++i) {
        CHECK(space->compare(arrays.at[i], n * file_io::array_words[i], content.words(i)).count == 0);
    }
}

TEST(the_first_wrong_word_is_named_with_its_byte) {
    std::vector<std::uint32_t> words(1000);
    const file_io::Words values = {5, file_io::Words::floats};
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = values(i);
    CHECK(file_io::compare_on_host(words.data(), 1000, values).count == 0);
    words[700] ^= 0x00040000u;
    words[900] = 0;
    const file_io::Mismatch mismatch = file_io::compare_on_host(words.data(), 1000, values);
    CHECK(mismatch.count == 2 && mismatch.first == 700 && mismatch.byte() == 2);
    const tenken::Check check = file_io::check_of(mismatch, {"x", 0}, "file", 4096, mismatch.first);
    const std::string wrong = check.first_wrong.dump();
    CHECK(!check.passed() &&
          wrong.find("{\"file\":\"file\",\"offset\":6898,\"word\":700,\"value\":\"0x") == 0);
}

TEST(the_map_chooses_the_nearest_size) {
    char name[] = "/tmp/tenken-map-XXXXXX";
    close(mkstemp(name));
    file_io::StorageMap map;
    map.add({"write", 4096, IoConfig::of("posix_4ki_1"), 1});
    map.add({"write", 1048576, IoConfig::of("direct_1mi_4"), 2.5});
    std::ofstream(name) << map.text({"made by a test"});
    const file_io::StorageMap back = file_io::StorageMap::read(name);
    CHECK_EQUAL(back.choose("write", 1).config.name(), "posix_4ki_1");
    CHECK_EQUAL(back.choose("write", 60000).config.name(), "posix_4ki_1");
    CHECK_EQUAL(back.choose("write", 70000).config.name(), "direct_1mi_4");
    CHECK_EQUAL(unit::thrown<std::runtime_error>([&] { back.choose("read_cold", 1); }),
                "the map has no entry for read_cold");
    std::ofstream(name) << "# tenken storage map 1\nwrite 4096 posix_4ki_1 fast\n";
    CHECK(unit::thrown<std::runtime_error>([&] { file_io::StorageMap::read(name); }).find(":2: allowed:") !=
          std::string::npos);
    std::ofstream(name) << "write 4096 posix_4ki_1 1\n";
    CHECK(unit::thrown<std::runtime_error>([&] {
              file_io::StorageMap::read(name);
          }).find(":1: a map begins") != std::string::npos);
    std::remove(name);
}

TEST(the_interval_of_a_median_counts_signs) {
    std::vector<double> samples(100);
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<double>((i * 37) % 100);
    const file_io::Interval interval = file_io::median_interval(samples);
    // Of 100 tosses, 36 heads or fewer have a probability of 0.33 %, 37 or fewer 0.60 %: the 37th from each
    // side.
    CHECK(interval.low == 36 && interval.median == 49.5 && interval.high == 63);
    // Eight is the smallest number whose extremes cover 99 %; for nine also the extremes.
    CHECK(file_io::median_interval({8, 1, 2, 3, 4, 5, 6, 7}).low == 1);
    CHECK(file_io::median_interval({9, 8, 1, 2, 3, 4, 5, 6, 7}).high == 9);
    CHECK(file_io::median_interval({3, 1, 2}).low == 1 && file_io::median_interval({5}).high == 5);
    CHECK(file_io::median_interval(std::vector<double>(3000, 2)).low == 2);
    CHECK(!unit::thrown<std::invalid_argument>([] { file_io::median_interval({}); }).empty());
}

TEST(of_equally_good_ways_the_preferred_one_stays) {
    CHECK(file_io::choose_fastest({{4, 5, 6}, {{1.00}, {0.99}, {2}}}, 3, 0.02) == 5);
    CHECK(file_io::choose_fastest({{4, 5, 6}, {{1.00}, {0.99}, {1.005}}}, 6, 0.02) == 6);
    CHECK(file_io::choose_fastest({{4, 5, 6}, {{1.00}, {0.90}, {1.005}}}, 6, 0.02) == 5);
    // As much slower as is allowed, and more.
    CHECK(file_io::choose_fastest({{0, 1}, {{2}, {3}}}, 1, 0.5) == 1);
    CHECK(file_io::choose_fastest({{0, 1}, {{2}, {3.001}}}, 1, 0.5) == 0);
    // Slightly slower in the median, but with little scatter.
    CHECK(file_io::choose_fastest({{0, 1}, {{0.5, 0.99, 3}, {1, 1, 1}}}, 2, 0.02) == 1);
    CHECK(!unit::thrown<std::invalid_argument>([] { file_io::choose_fastest({}, 0, 0.02); }).empty());
}

namespace {

/// Methods on a shared disk: each has its own time, occasionally much longer, and all of them are slower for
/// a while.
class NoisyDisk {
  public:
    NoisyDisk(const std::vector<double>& times, double noise, double spikes, std::uint32_t seed)
        : times_(times), noise_(noise), spikes_(spikes), random_(seed) {}

    double operator()(std::size_t config) {
        ++calls_;
        std::normal_distribution<double> normal(0, noise_);
        std::uniform_real_distribution<double> uniform(0, 1);
        const double drift = 1 + 0.5 * std::sin(calls_ / 40.0);
        return times_[config] * drift * std::exp(normal(random_)) * (uniform(random_) < spikes_ ? 10 : 1);
    }
    long calls() const { return calls_; }

  private:
    std::vector<double> times_;
    double noise_;
    double spikes_;
    std::mt19937 random_;
    long calls_ = 0;
};

/// The outcome of a choice in run B, with the number of rounds that fit for a large file.
file_io::Judgement judged(NoisyDisk& disk, std::size_t configs, std::size_t chosen, long maximum,
                          std::uint32_t seed) {
    const file_io::Once once = [&](std::size_t i, long) { return disk(i); };
    file_io::Rounds rounds;
    rounds.maximum = 5;
    rounds.seed = seed;
    file_io::Times times = file_io::run_rounds(configs, rounds, once);
    file_io::Deciding limit;
    limit.seconds = 60;
    limit.maximum = maximum;
    limit.seed = seed + 1;
    return file_io::judge_choice(times, chosen, 0.95, limit, once);
}

typedef file_io::Judgement::Outcome Outcome;

}  // namespace

TEST(a_choice_as_good_as_its_rivals_is_never_behind_and_soon_held_on_a_quiet_disk) {
    const std::vector<double> equal(9, 1.0);
    for (std::uint32_t seed = 1; seed <= 200; ++seed) {
        NoisyDisk quiet(equal, 0.02, 0, seed);
        const file_io::Judgement fine = judged(quiet, equal.size(), seed % 9, 300, seed);
        CHECK(fine.outcome == Outcome::held && fine.interval.low >= 0.95);
        CHECK(quiet.calls() < 9 * 6 + 5 * 60);
        NoisyDisk noisy(equal, 0.4, 0.1, seed);
        CHECK(judged(noisy, equal.size(), seed % 9, 60, seed).outcome != Outcome::missed);
    }
}

TEST(a_choice_that_is_behind_is_found_in_noise_and_never_held) {
    long missed = 0;
    for (std::uint32_t seed = 1; seed <= 200; ++seed) {
        std::vector<double> times(9, 1.0);
        times[3] = 1.25;  // 0.8 of the best
        NoisyDisk quiet(times, 0.03, 0, seed);
        const file_io::Judgement sure = judged(quiet, times.size(), 3, 300, seed);
        CHECK(sure.outcome == Outcome::missed && sure.interval.high < 0.95);
        NoisyDisk noisy(times, 0.2, 0.05, seed);
        const file_io::Judgement found = judged(noisy, times.size(), 3, 300, seed);
        CHECK(found.outcome != Outcome::held);
        if (found.outcome == Outcome::missed) ++missed;
        // Only one other method is faster, and it is named.
        std::vector<double> lone(9, 1.3);
        lone[7] = 1.0;
        NoisyDisk single(lone, 0.03, 0, seed);
        const file_io::Judgement named = judged(single, lone.size(), 0, 300, seed);
        CHECK(named.outcome == Outcome::missed && named.rival == 7);
    }
    CHECK(missed >= 190);
}

TEST(what_the_limit_leaves_open_is_undecided_and_says_how_wide) {
    const std::vector<double> times = {1.0, 0.95, 1.0};
    NoisyDisk disk(times, 0.5, 0.1, 5);
    const file_io::Judgement open = judged(disk, 3, 0, 12, 5);
    CHECK(open.outcome == Outcome::undecided && open.left >= 1 && open.rivals == 2);
    CHECK(open.interval.low < 0.95 && open.interval.high > 0.95);
    CHECK(open.ratios.size() == 12);
    NoisyDisk alone({1.0}, 0.1, 0, 1);
    CHECK(judged(alone, 1, 0, 12, 1).outcome == Outcome::alone);
}

TEST(a_choice_that_dropped_out_by_itself_is_behind) {
    const std::vector<double> times = {1.0, 3.0, 1.01};
    NoisyDisk disk(times, 0.02, 0, 3);
    const file_io::Judgement slow = judged(disk, 3, 1, 100, 3);
    CHECK(slow.outcome == Outcome::missed && slow.rival != 1 && slow.interval.median < 0.4);
    // And only the one that did not drop out is judged.
    NoisyDisk other({3.0, 1.0, 4.0}, 0.02, 0, 3);
    CHECK(judged(other, 3, 1, 100, 3).outcome == Outcome::held);
}

TEST(the_fastest_is_found_by_more_rounds_than_the_first_five) {
    long by_five = 0;
    long by_more = 0;
    for (std::uint32_t seed = 1; seed <= 200; ++seed) {
        const std::vector<double> times = {1.15, 1.15, 1.15, 1.0, 1.15, 1.15, 1.15, 1.15};
        NoisyDisk disk(times, 0.15, 0.05, seed);
        const file_io::Once once = [&](std::size_t i, long) { return disk(i); };
        file_io::Rounds rounds;
        rounds.maximum = 5;
        rounds.seed = seed;
        file_io::Times measured = file_io::run_rounds(times.size(), rounds, once);
        std::vector<std::size_t> all(times.size());
        std::iota(all.begin(), all.end(), std::size_t{0});
        if (file_io::choose_fastest({all, measured}, times.size(), 0.02) == 3) ++by_five;
        file_io::Deciding limit;
        limit.seconds = 60;
        limit.maximum = 100;
        const file_io::Finalists finalists = file_io::find_fastest(measured, 0.02, limit, once);
        if (file_io::choose_fastest(finalists, times.size(), 0.02) == 3) ++by_more;
    }
    CHECK(by_more >= 185 && by_five < by_more);
}

TEST(three_bad_rounds_at_the_beginning_cost_no_way_its_chance) {
    // The first method is the fastest except for its first rounds, for instance because its pages had to be
    // allocated.
    const auto disk = [](std::size_t i, std::size_t before) {
        return i == 0 ? (before < 3 ? 9.0 : 1.0) : 1.5;
    };
    file_io::Times times(3);
    std::vector<std::size_t> calls(3, 0);
    const file_io::Once once = [&](std::size_t i, long) { return disk(i, calls[i]++); };
    file_io::Rounds rounds;
    rounds.warm_up = false;
    rounds.maximum = rounds.minimum = 20;
    times = file_io::run_rounds(3, rounds, once);
    CHECK(times[0].size() == 3 && times[1].size() == 20);
    const file_io::Times before = times;
    file_io::Deciding limit;
    const file_io::Finalists finalists = file_io::find_fastest(times, 0.02, limit, once);
    CHECK(file_io::choose_fastest(finalists, 3, 0.02) == 0);
    // And it is compared with another choice.
    calls.assign(3, 3);
    times = before;
    const file_io::Judgement other = file_io::judge_choice(times, 1, 0.95, limit, once);
    CHECK(other.outcome == Outcome::missed && other.rival == 0);
    CHECK(times[0].size() == 4);
    // One that is still behind stays out.
    times = {{9, 9, 9}, {1.5, 1.5, 1.5, 1.5}};
    calls.assign(2, 0);
    CHECK(file_io::find_fastest(times, 0.02, limit, once).configs == std::vector<std::size_t>{1});
}

TEST(pairs_are_compared_until_their_side_of_the_bound_is_known) {
    // Pairs (0, 1): 0.97 of each other, (2, 3): 0.8, (4, 5): far above.
    for (std::uint32_t seed = 1; seed <= 50; ++seed) {
        NoisyDisk disk({1.03, 1.0, 1.25, 1.0, 1.0, 2.0}, 0.08, 0.02, seed);
        const file_io::Once once = [&](std::size_t i, long) { return disk(i); };
        file_io::Rounds rounds;
        rounds.maximum = 5;
        rounds.keep = 0;
        rounds.groups = std::vector<std::size_t>{0, 0, 1, 1, 2, 2};
        rounds.seed = seed;
        file_io::Times times = file_io::run_rounds(6, rounds, once);
        file_io::Deciding limit;
        limit.seconds = 60;
        limit.maximum = 400;
        const std::vector<file_io::Pair> open =
            file_io::decide_pairs(times, {{0, 1}, {2, 3}, {4, 5}}, 0.9, limit, once);
        CHECK(open.empty());
        CHECK(file_io::surely_below(file_io::pair_ratios(times[2], times[3]), 0.9));
        CHECK(file_io::median_interval(file_io::pair_ratios(times[0], times[1])).low >= 0.9);
        CHECK(times[2].size() >= 15 && times[2].size() == times[3].size());
        CHECK(times[4].size() < 20);
    }
    // A slow pair leaves a fast one the same time, and so more rounds.
    file_io::Times slow(4, std::vector<double>(2, 1.0));
    slow[1][1] = slow[3][1] = 0.5;
    file_io::Deciding brief;
    brief.seconds = 0.2;
    double spent[2] = {0, 0};
    double longest = 0;
    const auto uneven = [&](std::size_t i, long round) {
        const double begin = tenken::now_seconds();
        double end = begin;
        while (end < begin + (i < 2 ? 0.005 : 0.0001)) end = tenken::now_seconds();
        spent[i / 2] += end - begin;
        longest = std::max(longest, end - begin);
        return i % 2 == 0 || round % 2 == 0 ? 1.0 : 0.5;  // alternating 1 and 0.5: undecided forever
    };
    CHECK(file_io::decide_pairs(slow, {{0, 1}, {2, 3}}, 0.9, brief, uneven).size() == 2);
    CHECK(slow[0].size() >= 3 && slow[2].size() > slow[0].size());
    // Independent of other load: they are apart by a round of two measurements and what is between them.
    CHECK(slow[2].size() == 2 + 300 || std::fabs(spent[0] - spent[1]) <= 4 * longest);
    CHECK(slow[2].size() == slow[3].size() && slow[2].size() <= 2 + 300);
    // Undecided cases at the limit are named.
    file_io::Times times(2, std::vector<double>(2, 1.0));
    times[1][1] = 0.5;
    file_io::Deciding limit;
    limit.maximum = 0;
    const auto never = [](std::size_t, long) { return 1.0; };
    CHECK(file_io::decide_pairs(times, {{0, 1}}, 0.9, limit, never).size() == 1);
    CHECK(times[0].size() == 2);
    // A limit is not exceeded.
    limit.seconds = 60;
    limit.maximum = 3;
    const auto apart = [](std::size_t i, long round) { return i == 1 && round % 2 == 1 ? 0.5 : 1.0; };
    CHECK(file_io::decide_pairs(times, {{0, 1}}, 0.9, limit, apart).size() == 1);
    CHECK(times[0].size() == 2 + 3 && times[1].size() == 2 + 3);
}

TEST(members_of_a_group_stand_beside_each_other_in_every_round) {
    file_io::Rounds rounds;
    rounds.minimum = rounds.maximum = 50;
    rounds.keep = 0;
    rounds.groups = std::vector<std::size_t>{0, 1, 0, 1, 2};
    std::vector<std::size_t> order;
    file_io::run_rounds(5, rounds, [&](std::size_t i, long round) {
        if (round > 0) order.push_back(i);
        return 1.0;
    });
    long first_before_third = 0;
    long group_of_two_last = 0;
    for (std::size_t at = 0; at < order.size(); at += 5) {
        std::vector<std::size_t> place(5);
        for (std::size_t i = 0; i < 5; ++i) place[order[at + i]] = i;
        CHECK(place[0] + 1 == place[2] || place[2] + 1 == place[0]);
        CHECK(place[1] + 1 == place[3] || place[3] + 1 == place[1]);
        if (place[0] < place[2]) ++first_before_third;
        if (place[4] == 4) ++group_of_two_last;
    }
    CHECK(first_before_third > 10 && first_before_third < 40);
    CHECK(group_of_two_last > 3 && group_of_two_last < 35);
}

TEST(the_best_is_chosen_by_other_rounds_than_those_it_is_compared_by) {
    const std::vector<double> one(8, 1.0);
    const auto all = [](double ratio) { return std::vector<double>(8, ratio); };
    // Fast by luck in all even rounds, hence chosen for the odd ones, where it is not.
    std::vector<double> lucky(8, 1.0);
    for (std::size_t i = 0; i < lucky.size(); i += 2) lucky[i] = 0.1;
    CHECK(file_io::against_best(one, {one, lucky}) == all(1));
    // One that is faster in every round is.
    CHECK(file_io::against_best(one, {all(0.5), one}) == all(0.5));
    // One that dropped out does not count, unless all did.
    CHECK(file_io::against_best(one, {std::vector<double>(3, 0.5), one}) == all(1));
    CHECK(file_io::against_best(one, {std::vector<double>(3, 2), std::vector<double>(4, 3)}) ==
          std::vector<double>(3, 2));
    CHECK(!unit::thrown<std::invalid_argument>([&] { file_io::against_best(one, {}); }).empty());
    CHECK(!unit::thrown<std::invalid_argument>([&] { file_io::against_best({1}, {{1}}); }).empty());
}

TEST(rounds_drop_what_is_far_behind_and_keep_the_rest) {
    file_io::Rounds rounds;
    rounds.minimum = rounds.maximum = 20;
    long warm = 0;
    // The last one is disturbed in all rounds but one.
    const auto seconds = file_io::run_rounds(4, rounds, [&](std::size_t i, long round) {
        if (round == 0) ++warm;
        return i == 2 || (i == 3 && round > 1) ? 2.0 : 1.0;
    });
    CHECK(warm == 4);
    CHECK(seconds[0].size() == 20 && seconds[1].size() == 20 && seconds[2].size() == 3);
    CHECK(seconds[3].size() == 20);
}

TEST(workers_do_each_part_once_and_pass_on_what_one_throws) {
    file_io::Workers workers(4, [] {});
    std::vector<int> done(4, 0);
    for (int repetition = 0; repetition < 100; ++repetition) {
        workers.run(4, [&](int i) { ++done[static_cast<std::size_t>(i)]; });
    }
    CHECK(done == std::vector<int>(4, 100));
    CHECK_EQUAL(unit::thrown<std::runtime_error>([&] {
                    workers.run(3, [](int i) {
                        if (i == 2) throw std::runtime_error("two");
                    });
                }),
                "two");
    workers.run(2, [&](int i) { ++done[static_cast<std::size_t>(i)]; });
    CHECK(done[0] == 101 && done[1] == 101 && done[3] == 100);
}

TEST(a_ready_thread_does_what_it_is_given_and_hands_on_what_fails) {
    int begun = 0;
    file_io::ReadyThread ready([&] { ++begun; });
    const std::thread::id here = std::this_thread::get_id();
    std::thread::id there;
    int done = 0;
    const auto work = [&] {
        there = std::this_thread::get_id();
        ++done;
    };
    ready.wait();  // nothing is there
    ready.start(work);
    CHECK(done == 1 && there == here && begun == 0);
    for (int repetition = 0; repetition < 100; ++repetition) {
        ready.arm();
        ready.start(work);
        ready.wait();
        ready.start(work);
        ready.disarm();  // waits too
    }
    CHECK(done == 201);
    CHECK(there != here && begun == 1);
    ready.arm();
    for (int repetition = 0; repetition < 2; ++repetition) {
        ready.start([] { throw std::runtime_error("no GPU"); });
        CHECK_EQUAL(unit::thrown<std::runtime_error>([&] { ready.wait(); }), "no GPU");
        CHECK_EQUAL(unit::thrown<std::runtime_error>([&] { ready.wait(); }), "no GPU");
        ready.settle();
        ready.disarm();
    }
    ready.start(work);
    ready.wait();
    CHECK(done == 202);
}

TEST(a_run_folder_takes_everything_with_it) {
    std::string path;
    {
        const file_io::RunFolder folder(".", "unit");
        path = folder.path();
        file_io::ScratchFile scratch(folder.file("a"));
        std::ofstream(scratch.path()) << "x";
        CHECK(access(folder.file("a").c_str(), F_OK) != 0);
        scratch.finish();
        CHECK(access(folder.file("a").c_str(), F_OK) == 0);
        std::ofstream(folder.file("b")) << "y";
    }
    CHECK(access(path.c_str(), F_OK) != 0);
    CHECK(!unit::thrown<std::runtime_error>([] { file_io::RunFolder("/nowhere", "unit"); }).empty());
}

TEST(a_file_goes_past_the_page_cache_with_a_tail_that_is_no_page) {
    const file_io::RunFolder folder(".", "unit");
    const std::unique_ptr<file_io::MemorySpace> space = file_io::make_host_memory_space(2);
    const std::uint64_t bytes = 3 * 4096 + 1204;
    const file_io::Memory from = space->allocate(bytes);
    const file_io::Memory to = space->allocate(bytes);
    const file_io::Words values = {2, file_io::Words::floats};
    space->fill(from.get(), bytes / 4, values);
    for (const char* name : {"posix_4ki_1", "direct_4ki_2", "direct_1mi_1", "mapped_4ki_2"}) {
        const std::unique_ptr<file_io::IoBackend> io_backend = space->io_backend(IoConfig::of(name));
        file_io::File file(folder.file(name), file_io::File::Mode::create, io_backend->needs_direct());
        io_backend->write(file, {{0, bytes, from.get()}});
        CHECK(file.size() == bytes);
        space->clear(to.get(), bytes);
        io_backend->read(file, {{0, bytes, to.get()}});
        CHECK(space->compare(to.get(), bytes / 4, values).count == 0);
        CHECK(file_io::compare_file(file, 0, bytes / 4, values).count == 0);
        // One more word than there is.
        CHECK(unit::thrown<file_io::FileError>([&] {
                  io_backend->read(file, {{4096, bytes, to.get()}});
              }).find("is cut short: it ends at offset " + std::to_string(bytes)) != std::string::npos);
    }
}
