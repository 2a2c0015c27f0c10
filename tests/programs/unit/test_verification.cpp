#include <algorithm>
#include <cmath>
#include <memory>

#include "lib/base/document.h"
#include "lib/base/verification.h"
#include "lib/mpi/buffer.h"
#include "unit.h"

TEST(a_flipped_bit_is_small_but_seen) {
    for (double value : {1.0, 1.9, -3e-200, 7e300}) {
        const double error = tenken::relative_error(tenken::with_flipped_bit(value), value);
        CHECK(error > 1e-5 && error < 1e-3);
    }
}

TEST(the_first_wrong_element_is_named) {
    std::vector<double> values(1000, 2.0);
    values[700] = 3;
    values[900] = std::nan("");
    tenken::ErrorScan errors(1e-12);
    tenken::scan(errors, values.data(), values.size(), 5000, 1e-12, [](std::size_t) { return 2.0; });
    const tenken::Check check = errors.check({"x", 1e-12});
    CHECK(!check.passed());
    CHECK(std::isinf(check.error));
    CHECK_EQUAL(check.json().dump(),
                "{\"name\":\"x\",\"subject\":{\"host\":0},\"error\":null,"
                "\"first_wrong\":{\"element\":5700,\"value\":3,\"expected\":2}}");
}

TEST(what_is_right_passes) {
    const std::vector<double> values(10, 0.0);
    tenken::ErrorScan errors(0);
    tenken::scan(errors, values.data(), values.size(), 0, 0, [](std::size_t) { return 0.0; });
    CHECK(errors.check({"x", 1e-12}).passed());
}

TEST(of_merged_scans_the_first_wrong_element_and_the_largest_error_count) {
    tenken::ErrorScan first(0);
    tenken::ErrorScan second(0);
    first.compare(3, 4, 2);
    second.compare(7, 3, 2);
    for (tenken::ErrorScan* other : {&first, &second}) {
        tenken::ErrorScan merged(0);
        merged.merge(*other);
        merged.merge(other == &first ? second : first);
        const tenken::Check check = merged.check({"x", 0});
        CHECK(check.error == 1 && check.json().dump().find("\"element\":3,") != std::string::npos);
    }
}

namespace {

/// Two ranks, of which the other has this error and this first wrong element. Like MPI_MAX, it may drop a
/// NaN.
struct Pair {
    double error;
    std::string wrong;
    bool first;

    std::vector<double> largest(std::vector<double> mine) const {
        for (double& one : mine) one = error > one || std::isnan(one) ? error : one;
        return mine;
    }
    std::vector<std::string> gather(const std::string& mine) const {
        return first ? std::vector<std::string>{wrong, mine} : std::vector<std::string>{mine, wrong};
    }
};

}  // namespace

TEST(of_all_ranks_the_largest_error_and_the_first_wrong_element_count) {
    const std::string element = "{\"element\":3}";
    for (const double mine : {0.0, 2.0, HUGE_VAL, std::nan("")}) {
        for (const double other : {0.0, 1.0, 3.0}) {
            for (const bool first : {true, false}) {
                const bool wrong = !(mine <= 0);
                tenken::Check check = {{"x", 0}, tenken::Subject::host(), {}, mine};
                if (wrong) check.first_wrong = tenken::Json::object().set("element", 7);
                const Pair pair = {other, other > 0 ? element : "null", first};
                const tenken::Check all = tenken::of_all(check, pair);
                CHECK(all.passed() == (!wrong && other == 0));
                CHECK(!std::isfinite(mine) || all.error == std::max(mine, other));
                const bool others = other > 0 && (first || !wrong);
                CHECK_EQUAL(all.first_wrong.dump(), others ? element : wrong ? "{\"element\":7}" : "null");
            }
        }
    }
}

TEST(a_metric_that_is_not_finite_fails_the_run_and_is_not_written) {
    char name[] = "prog";
    char* argv[] = {name, nullptr};
    for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
        tenken::Document document("prog", 1, argv);
        tenken::Metric metric;
        metric.name = "triad";
        metric.samples = {1, bad};
        document.add(metric);
        CHECK(document.status() == tenken::Status::failed);
        CHECK_EQUAL(document.reason(), "metric triad.host is not finite in sample 1");
        CHECK(document.json().dump().find("\"series\":[]") != std::string::npos);
    }
}

TEST(a_metric_without_samples_or_reported_twice_fails_the_run) {
    char name[] = "prog";
    char* argv[] = {name, nullptr};
    tenken::Document without("prog", 1, argv);
    tenken::Document twice("prog", 1, argv);
    tenken::Metric metric;
    metric.name = "triad";
    without.add(metric);
    CHECK_EQUAL(without.reason(), "metric triad.host has no samples");
    metric.samples = {1};
    twice.add(metric);
    CHECK(twice.status() != tenken::Status::failed);
    twice.add(metric);
    CHECK_EQUAL(twice.reason(), "metric triad.host is reported twice");
}

TEST(metric_ids_order_their_coordinates) {
    tenken::Metric metric;
    metric.name = "peer";
    metric.subject = tenken::Subject::pair(0, 1);
    metric.at = {{"streams", 2}, {"bytes", 4096}, {"memory", "pinned"}};
    CHECK_EQUAL(metric.id(), "peer.gpu0-gpu1.bytes=4096.memory=pinned.streams=2");
}

TEST(a_message_of_any_length_differs_from_that_of_another_pattern_or_rank) {
    constexpr std::size_t at = 256;
    const std::unique_ptr<mpi_p2p::Buffer> buffer = mpi_p2p::make_host_buffer(2 * at);
    for (const std::size_t bytes : {1, 2, 3, 4, 7, 8, 9, 12, 15, 16}) {
        for (double base = 1; base < 200; ++base) {
            buffer->fill(at, bytes, {base, 1});
            CHECK(buffer->compare(at, bytes, {base, 1}).passed());
            for (const double other : {base + 1, base + 4}) {
                CHECK(!buffer->compare(at, bytes, {other, 1}).passed());
                if (bytes % 8 != 1) continue;
                // the last byte alone is of the other one
                buffer->fill(at, bytes, {base, 1});
                static_cast<unsigned char*>(buffer->at(at))[bytes - 1] = static_cast<unsigned char>(other);
                CHECK(!buffer->compare(at, bytes, {base, 1}).passed());
                buffer->fill(at, bytes, {base, 1});
            }
        }
    }
}
