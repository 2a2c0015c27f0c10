// What the programs that move data between memory and files have in common.
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "file_io/check_file.h"
#include "file_io/particles.h"
#include "file_io/place.h"
#include "file_io/rounds.h"
#include "file_io/scratch.h"
#include "file_io/side.h"
#include "file_io/storage_map.h"
#include "file_io/workers.h"
#include "unit.h"

using file_io::Candidate;

TEST(candidates_have_names_that_read_back) {
    for (const char* name :
         {"posix_4ki_1", "direct_16mi_8", "cufile_compat_buffered_1gi_1024", "gds_12ki_3"}) {
        CHECK_EQUAL(Candidate::of(name).name(), name);
    }
    CHECK(Candidate::of("cufile_compat_4mi_2").method == "cufile_compat");
    for (const char* wrong : {"", "posix", "posix_4ki", "posix_4kb_1", "posix_4ki_0", "posix_4ki_1x",
                              "posix_100_1", "posix_2048_1", "posix_2gi_1", "_4Ki_1", "posix__1"}) {
        CHECK(!unit::thrown<std::invalid_argument>([&] { Candidate::of(wrong); }).empty());
    }
}

TEST(a_candidate_is_fitted_to_few_bytes) {
    const Candidate large = Candidate::of("posix_16mi_8");
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
    const std::unique_ptr<file_io::Side> side = file_io::make_host_side(3);
    const file_io::Particles content = {9};
    const std::uint64_t n = 200001;
    file_io::Memory memory[8];
    file_io::Quartet arrays;
    file_io::Quartet packed;
    for (int i = 0; i < 4; ++i) {
        memory[i] = side->allocate(n * file_io::array_words[i] * 4);
        arrays.at[i] = memory[i].get();
        side->fill(arrays.at[i], n * file_io::array_words[i], content.words(i));
        memory[4 + i] = side->allocate(n * 12);
        packed.at[i] = memory[4 + i].get();
    }
    side->pack(arrays, packed, n);
    for (int d = 0; d < 3; ++d) {
        const file_io::DatasetWords expected = {content, file_io::Layout::hyperslab, d};
        CHECK(file_io::compare_on_host(reinterpret_cast<const std::uint32_t*>(packed.at[d]),
                                       n * datasets_of(file_io::Layout::hyperslab)[d].words(), expected)
                  .count == 0);
    }
    for (int i = 0; i < 3; ++i) side->clear(arrays.at[i], n * file_io::array_words[i] * 4);
    side->unpack(packed, arrays, n);
    for (int i = 0; i < 4; ++i) {
        CHECK(side->compare(arrays.at[i], n * file_io::array_words[i], content.words(i)).count == 0);
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
    const tenken::Check check = file_io::check_of(mismatch, "x", "file", 4096, mismatch.first);
    CHECK(!check.passed() && check.detail.find("file at offset 6898: word 700 is 0x") == 0);
}

TEST(the_map_chooses_the_nearest_size) {
    char name[] = "/tmp/tenken-map-XXXXXX";
    close(mkstemp(name));
    file_io::StorageMap map;
    map.add({"write", 4096, Candidate::of("posix_4ki_1"), 1});
    map.add({"write", 1048576, Candidate::of("direct_1mi_4"), 2.5});
    std::ofstream(name) << map.text({"made by a test"});
    const file_io::StorageMap back = file_io::StorageMap::read(name);
    CHECK_EQUAL(back.choose("write", 1).candidate.name(), "posix_4ki_1");
    CHECK_EQUAL(back.choose("write", 60000).candidate.name(), "posix_4ki_1");
    CHECK_EQUAL(back.choose("write", 70000).candidate.name(), "direct_1mi_4");
    CHECK_EQUAL(unit::thrown<std::runtime_error>([&] { back.choose("read_cold", 1); }),
                "the map has no entry for read_cold");
    std::ofstream(name) << "# tenken storage map 1\nwrite 4096 posix_4ki_1 fast\n";
    CHECK(unit::thrown<std::runtime_error>([&] { file_io::StorageMap::read(name); }).find(":2: allowed is") !=
          std::string::npos);
    std::ofstream(name) << "write 4096 posix_4ki_1 1\n";
    CHECK(unit::thrown<std::runtime_error>([&] {
              file_io::StorageMap::read(name);
          }).find(":1: a map begins") != std::string::npos);
    std::remove(name);
}

TEST(of_equally_good_ways_the_preferred_one_stays) {
    CHECK(file_io::choose_lowest({1.00, 0.99, 2}, 3, 0.02) == 0);
    CHECK(file_io::choose_lowest({1.00, 0.99, 1.005}, 2, 0.02) == 2);
    CHECK(file_io::choose_lowest({1.00, 0.90, 1.005}, 2, 0.02) == 1);
}

TEST(the_best_is_chosen_by_other_rounds_than_those_it_is_compared_by) {
    const std::vector<double> one(8, 1.0);
    const auto all = [](double ratio) { return std::vector<double>(8, ratio); };
    // Lucky in all even rounds, hence the best for the odd ones, where it is not.
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
    rounds.least = rounds.most = 20;
    long warm = 0;
    const auto seconds = file_io::run_rounds(3, rounds, [&](std::size_t i, long round) {
        if (round == 0) ++warm;
        return i == 2 ? 2.0 : 1.0;
    });
    CHECK(warm == 3);
    CHECK(seconds[0].size() == 20 && seconds[1].size() == 20 && seconds[2].size() == 3);
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
    const std::unique_ptr<file_io::Side> side = file_io::make_host_side(2);
    const std::uint64_t bytes = 3 * 4096 + 1204;
    const file_io::Memory from = side->allocate(bytes);
    const file_io::Memory to = side->allocate(bytes);
    const file_io::Words values = {2, file_io::Words::floats};
    side->fill(from.get(), bytes / 4, values);
    for (const char* name : {"posix_4ki_1", "direct_4ki_2", "direct_1mi_1", "mapped_4ki_2"}) {
        const std::unique_ptr<file_io::Mover> mover = side->mover(Candidate::of(name));
        file_io::File file(folder.file(name), file_io::File::Mode::create, mover->needs_direct());
        mover->write(file, {{0, bytes, from.get()}});
        CHECK(file.size() == bytes);
        side->clear(to.get(), bytes);
        mover->read(file, {{0, bytes, to.get()}});
        CHECK(side->compare(to.get(), bytes / 4, values).count == 0);
        CHECK(file_io::compare_file(file, 0, bytes / 4, values).count == 0);
        // One word more than there is.
        CHECK(unit::thrown<file_io::FileError>([&] {
                  mover->read(file, {{4096, bytes, to.get()}});
              }).find("is cut short: it ends at offset " + std::to_string(bytes)) != std::string::npos);
    }
}
