// The contents of data_loading's samples, the order in which they are read, and which thread may read into
// which batch.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "programs/data_loading/loader.h"
#include "programs/data_loading/samples.h"
#include "unit.h"

using data_loading::Batch;
using data_loading::Kind;
using data_loading::Loader;
using data_loading::order_of;

namespace {

Kind kind_of(const std::string& word) {
    Kind kind;
    CHECK(Kind::of(word, kind));
    return kind;
}

}  // namespace

TEST(data_loading_kinds_have_the_published_sizes) {
    // 768 x 1152 points of 16 floats
    CHECK(kind_of("deepcam").bytes == 56623104 && kind_of("deepcam").bytes_of(7) == 56623104);
    const Kind speech = kind_of("speech");
    // 12.3 s with one frame per 10 ms, 80 floats each
    CHECK(speech.bytes == 393600);
    double sum = 0;
    for (std::size_t i = 0; i < 881; ++i) {
        sum += static_cast<double>(speech.bytes_of(i));
        CHECK(speech.bytes_of(i) % 320 == 0 && speech.bytes_of(i) <= speech.largest());
    }
    CHECK(sum == 881.0 * 393600);
    // the longest of training, 16.7 s
    CHECK(speech.largest() == 1670 * 320);
    CHECK(kind_of("64ki").bytes == 65536 && kind_of("64ki").batch == 64);
    CHECK(kind_of("16mi").batch == 2 && kind_of("64mi").batch == 1);
    Kind none;
    for (const char* word : {"", "4095", "4098", "4097", "-4096", "64k", "8gi", "1024ki", "64Ki", "image",
                             "99999999999999999999"}) {
        CHECK(!Kind::of(word, none));
    }
}

TEST(data_loading_epochs_read_each_sample_once_in_another_order) {
    const std::vector<std::size_t> order = order_of(100, 3, true, 1);
    CHECK(order.size() == 300);
    std::set<std::vector<std::size_t>> different;
    for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::size_t> one(order.begin() + 100 * epoch, order.begin() + 100 * (epoch + 1));
        different.insert(one);
        std::size_t in_place = 0;
        for (std::size_t i = 0; i < 100; ++i) in_place += one[i] == i ? 1 : 0;
        CHECK(in_place < 10);
        std::sort(one.begin(), one.end());
        for (std::size_t i = 0; i < 100; ++i) CHECK(one[i] == i);
    }
    CHECK(different.size() == 3);
    CHECK(order_of(100, 3, true, 1) == order && order_of(100, 3, true, 2) != order);
    const std::vector<std::size_t> plain = order_of(3, 2, false, 1);
    CHECK((plain == std::vector<std::size_t>{0, 1, 2, 0, 1, 2}));
}

TEST(data_loading_checksums_notice_a_bit_and_words_that_change_places) {
    std::vector<std::uint32_t> words(1000);
    const file_io::Words values = data_loading::content_of(5);
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = values(i);
    const std::uint64_t whole = data_loading::checksum(words.data(), words.size());
    CHECK(whole == data_loading::expected_checksum(5, 4000));
    CHECK(whole != data_loading::expected_checksum(6, 4000));
    for (int bit = 0; bit < 32; ++bit) {
        words[999] ^= 1u << bit;
        CHECK(data_loading::checksum(words.data(), words.size()) != whole);
        words[999] ^= 1u << bit;
    }
    std::swap(words[10], words[500]);
    CHECK(data_loading::checksum(words.data(), words.size()) != whole);
    // by hand: 7 x 1 + 9 x 3
    const std::uint32_t two[] = {7, 9};
    CHECK(data_loading::checksum(two, 2) == 34);
}

TEST(data_loading_reads_ahead_as_far_as_the_ring_and_no_further) {
    for (const std::size_t ring_size : {1, 3}) {
        std::vector<std::vector<char>> memory(ring_size, std::vector<char>(2 * 8));
        std::vector<char*> ring;
        for (std::vector<char>& one : memory) ring.push_back(one.data());
        std::atomic<std::size_t> released(0);
        std::atomic<std::size_t> begun(0);
        std::atomic<int> too_far(0);
        Loader loader(
            3,
            [&]() -> Loader::Read {
                return [&](std::size_t sample, char* to) {
                    if (begun++ / 2 >= released + ring_size) ++too_far;
                    *to = static_cast<char>(sample);
                };
            },
            ring, 8, 2);
        const std::vector<std::size_t> order = order_of(20, 2, true, 3);
        loader.begin(order);
        for (std::size_t batch = 0; batch < 20; ++batch) {
            const Batch there = loader.next();
            CHECK(there.count == 2 && there.memory == ring[batch % ring_size]);
            for (std::size_t i = 0; i < 2; ++i) {
                CHECK(there.samples[i] == order[2 * batch + i]);
                CHECK(there.memory[8 * i] == static_cast<char>(there.samples[i]));
            }
            ++released;
            loader.release();
        }
        CHECK(too_far == 0 && begun == 40);
    }
}

TEST(data_loading_hands_on_what_a_thread_threw) {
    std::vector<char> memory(8);
    Loader loader(
        2,
        []() -> Loader::Read {
            return [](std::size_t sample, char*) {
                if (sample == 3) throw std::runtime_error("sample 3");
            };
        },
        {memory.data()}, 8, 1);
    const std::vector<std::size_t> order = {0, 1, 2, 3, 4};
    loader.begin(order);
    CHECK_EQUAL(unit::thrown<std::runtime_error>([&] {
                    for (int i = 0; i < 5; ++i) {
                        loader.next();
                        loader.release();
                    }
                }),
                "sample 3");
    std::atomic<int> ready(0);
    const Loader slow(
        2,
        [&ready]() -> Loader::Read {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            ++ready;
            return [](std::size_t, char*) {};
        },
        {memory.data()}, 8, 1);
    CHECK(ready == 2);
    const auto broken = [&] {
        Loader none(
            2, []() -> Loader::Read { throw std::runtime_error("no reader"); }, {memory.data()}, 8, 1);
    };
    CHECK_EQUAL(unit::thrown<std::runtime_error>(broken), "no reader");
}
