// What all programs use for counting, compared with numbers written by hand: rates, limits of memory and
// links, HPCG's rating, verdicts of a verification, intervals.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/document.h"
#include "lib/base/energy_pass.h"
#include "lib/base/links.h"
#include "lib/base/verification.h"
#include "lib/file_io/rounds.h"
#include "programs/hpcg/benchmark.h"
#include "programs/stencil/grid.h"
#include "unit.h"

namespace {

bool near(double found, double expected) {
    return std::fabs(found - expected) <= 1e-9 * std::fabs(expected);
}

/// A GPU at an address with links of 25 GB/s to a switch, some of which are down.
tenken::LinkedGpu switched(const std::string& address, int links, int down) {
    tenken::LinkedGpu gpu;
    gpu.description.pcie_generation_max = 5;
    gpu.description.pci_bus_id = address;
    gpu.description.nvlink_gbs_per_link = 25.0;
    for (int i = 0; i < links; ++i) {
        tenken::NvLink link;
        link.index = i;
        link.active = i >= down;
        link.end = tenken::NvLink::End::nvswitch;
        gpu.links.push_back(link);
    }
    return gpu;
}

/// An engine whose products are given: for vectors with |x| = 2 and |y| = 3, and the difference of the two
/// ways.
class Chosen : public hpcg::Engine {
  public:
    double product_apart = 0;
    double cycle_apart = 0;

    void begin() override {}
    void precondition(int, bool) override {}
    void direction(int) override {}
    void multiply() override {}
    void advance(int) override {}
    double norm() override { return 0; }
    void fill_random(hpcg::Vector, std::uint64_t) override {}
    void fill(hpcg::Vector, double) override {}
    void product_of(hpcg::Vector, hpcg::Vector) override { apart_ = product_apart; }
    void cycle_of(hpcg::Vector, hpcg::Vector) override { apart_ = cycle_apart; }
    double dot(hpcg::Vector a, hpcg::Vector b) override {
        if (a == b) return a == hpcg::Vector::first ? 4 : 9;
        return a == hpcg::Vector::first ? 1 : 1 + apart_;
    }
    void exaggerate_diagonal(bool) override {}
    double residual_of_x() override { return 0; }
    double worst_error() override { return 0; }
    void spoil_value() override {}
    void spoil_halo() override {}
    void spoil_x() override {}
    void clear_times() override {}
    hpcg::PhaseSeconds times() override { return {}; }
    hpcg::PhaseBytes bytes() const override { return {}; }
    std::vector<std::pair<std::string, std::string>> facts() const override { return {}; }

  private:
    double apart_ = 0;
};

/// Two ranks; the other one's GPU draws 200 W.
class TwoRanks : public tenken::Ranks {
  public:
    std::vector<std::string> gather(const std::string& mine) override { return {mine, "200"}; }
};

/// Another rank began its work 50 ms after this one.
class BesideALaterRank : public tenken::Ranks {
  public:
    std::vector<double> largest(std::vector<double> mine) override {
        for (double& one : mine) one += 0.05;
        return mine;
    }
};

/// The first value of the series of this metric in a document's JSON.
double value_of(const tenken::Document& document, const std::string& name) {
    const std::string text = document.json().dump();
    const std::size_t at = text.find("\"metric\":\"" + name + "\"");
    if (at == std::string::npos) return std::numeric_limits<double>::quiet_NaN();
    return std::stod(text.substr(text.find('[', text.find("\"values\"", at)) + 1));
}

}  // namespace

TEST(oracle_a_rate_is_an_amount_over_a_time_in_units_of_ten_to_the_ninth) {
    const std::vector<double> rates = tenken::giga_per_second(24e9, {2, 0.5});
    CHECK(near(rates[0], 12) && near(rates[1], 48));
}

TEST(oracle_a_pair_has_as_many_links_as_are_active_in_both) {
    const tenken::LinkedGpu whole = switched("0000:1B:00.0", 18, 0);
    const tenken::LinkedGpu lame = switched("0000:43:00.0", 18, 1);
    CHECK(tenken::pair_link(whole, whole).count == 18);
    CHECK(tenken::pair_link(whole, lame).count == 17);
    CHECK(tenken::pair_link(lame, whole).count == 17);
    CHECK_EQUAL(lame.inactive(), "0");
}

TEST(oracle_direct_links_count_where_they_lead_to_the_other) {
    tenken::LinkedGpu one = switched("0000:1B:00.0", 6, 0);
    const tenken::LinkedGpu other = switched("0000:43:00.0", 6, 0);
    for (std::size_t i = 0; i < one.links.size(); ++i) {
        one.links[i].end = tenken::NvLink::End::gpu;
        one.links[i].remote_pci_bus_id = std::string(i < 2 ? "0000:43:00" : "0000:9d:00");
    }
    CHECK(tenken::pair_link(one, other).count == 2);
    one.links[0].active = false;
    CHECK(tenken::pair_link(one, other).count == 1);
}

TEST(oracle_domain_bus_and_device_name_a_gpu) {
    CHECK(tenken::same_pci_device("00000000:1B:00.0", "0000:1b:00"));
    CHECK(!tenken::same_pci_device("0001:1B:00.0", "0000:1B:00.0"));
    CHECK(!tenken::same_pci_device("0000:1C:00.0", "0000:1B:00.0"));
    CHECK(!tenken::same_pci_device("0000:1B:01.0", "0000:1B:00.0"));
    CHECK(!tenken::same_pci_device("", "0000:1B:00.0"));
}

TEST(oracle_more_iterations_than_50_are_no_more_work_for_hpcg) {
    hpcg::Outcome outcome;
    const double sides[4] = {16, 8, 4, 2};
    for (double side : sides) {
        outcome.totals.push_back({side * side * side, std::pow(3 * side - 2, 3)});
    }
    outcome.iterations = 60;
    outcome.set_seconds = {2, 3};
    outcome.total_seconds = 5;
    outcome.setup_seconds = 1;
    outcome.optimise_seconds = 2;
    // by hand: 2 sets of 60 iterations on 4096 rows and 97336, 10648, 1000 and 64 entries
    const double dot = (3 * 120 + 2) * 2 * 4096.0;
    const double product = (120 + 2) * 2 * 97336.0;
    const double cycle = 120 * (10 * (97336.0 + 10648 + 1000) + 4 * 64.0);
    const double all = 2 * dot + product + cycle;
    CHECK(near(outcome.operations().total(), all));
    CHECK(near(outcome.with_convergence(), all * 50 / 60));
    CHECK(near(outcome.rating(), all * 50 / 60 / (5 + 2 * (2 + 1) / 10.0) / 1e9));
}

TEST(oracle_an_hpcg_run_is_valid_when_every_test_has_passed) {
    hpcg::Outcome good;
    good.converged = true;
    good.spectrum.plain = 12;
    good.spectrum.preconditioned = 2;
    good.symmetry.product = good.symmetry.cycle = 1;
    good.norms.variance = 0.99e-6;
    CHECK(good.valid());
    std::vector<hpcg::Outcome> bad(6, good);
    bad[0].converged = false;
    bad[1].spectrum.plain = 13;
    bad[2].spectrum.preconditioned = 3;
    bad[3].symmetry.product = 1.01;
    bad[4].symmetry.cycle = 1.01;
    bad[5].norms.variance = 1.01e-6;
    for (const hpcg::Outcome& one : bad) CHECK(!one.valid());
    CHECK(hpcg::official_seconds == 1800);
}

TEST(oracle_hpcg_departs_from_symmetry_by_roundings) {
    // 2 |x| |A| |y| eps is 2 x 2 x 52 x 3 x 2^-52
    const double unit = 624 * std::ldexp(1.0, -52);
    Chosen engine;
    engine.product_apart = 512 * std::ldexp(1.0, -52);
    engine.cycle_apart = -1024 * std::ldexp(1.0, -52);
    const hpcg::SymmetryTest found = hpcg::test_symmetry(engine);
    CHECK(near(found.product, engine.product_apart / unit));
    CHECK(near(found.cycle, -engine.cycle_apart / unit));
    const hpcg::NormsTest norms = hpcg::test_norms({1, 2, 6});
    CHECK(near(norms.mean, 3) && near(norms.variance, 14.0 / 3));
    // a solver that repeats its bits has variance 0 for any number of sets, which a fast machine has other
    // ones of
    for (std::size_t sets = 1; sets <= 99; ++sets)
        CHECK(hpcg::test_norms(std::vector<double>(sets, 1.51974e-41)).variance == 0);
}

TEST(oracle_hpcgs_model_of_traffic) {
    // one set of two iterations on 64 and 8 rows, 1000 and 100 entries of 12 bytes; numbers of 8
    const hpcg::Traffic found = hpcg::model_traffic({{64, 1000}, {8, 100}}, 1, 2);
    const double vectors = 3 * 2 + 1;
    const double fine = 2 * 1000 * 12 + 64 * 8;
    const double coarse = 2 * 100 * 12 + 8 * 8;
    const double product = 1000 * 12 + 64 * 8;
    CHECK(near(found.read, vectors * 4 * 64 * 8 + 3 * product + 2 * (2 * fine + product) + 2 * coarse));
    CHECK(near(found.written, vectors * (8 + 64 * 8) + 3 * 64 * 8 + 2 * (64 + 2 * 1000) * 8.0 + 2 * 8 * 8.0));
}

TEST(oracle_what_a_run_costs_in_joules) {
    char name[] = "prog";
    char* argv[] = {name, nullptr};
    tenken::Document document("prog", 1, argv);
    tenken::EnergyPass pass;
    pass.amount = 6e12;
    tenken::EnergyFound found;
    tenken::EnergyReading reading;
    reading.watts = 100;
    reading.duration = 7;
    found.reading = reading;
    found.seconds = 2;
    TwoRanks ranks;
    tenken::Metric made;
    made.name = "energy";
    tenken::add_energy(document, ranks, pass, found, made);
    CHECK(near(value_of(document, "power"), 300));  // so 10 GFLOP/s/W, and 600 J per run
    const std::string json = document.json().dump();
    CHECK(json.find("\"operations\":6000000000000") != std::string::npos);
    CHECK(json.find("\"seconds\":2") != std::string::npos);
}

TEST(oracle_a_pass_tells_the_time_of_one_run) {
    tenken::EnergyMeter none(nullptr, "");
    tenken::Ranks alone;
    tenken::EnergyPass pass;
    int runs = 0;
    pass.run = [&runs] { return ++runs % 2 == 0 ? 3.0 : 1.0; };
    const tenken::EnergyFound found = tenken::measure_energy(none, alone, 0.01, pass);
    CHECK(runs >= 2 && found.seconds >= 1.5 && found.seconds <= 2);
    BesideALaterRank ranks;
    const double begin = tenken::now_seconds();
    tenken::measure_energy(none, ranks, 0.01, pass);
    CHECK(tenken::now_seconds() - begin >= 0.06);  // until the time has passed in the other one too
}

TEST(oracle_an_error_is_relative_to_what_is_expected) {
    CHECK(tenken::relative_error(3, 2) == 0.5);
    CHECK(tenken::relative_error(-0.5, 0) == 0.5);
    CHECK(std::isinf(tenken::relative_error(HUGE_VAL, 2)) && std::isinf(tenken::relative_error(NAN, 2)));
    tenken::ErrorScan total(0.1);
    tenken::ErrorScan one(0.1);
    tenken::ErrorScan other(0.1);
    one.compare(7, 3, 2);
    other.compare(5, 2.2, 2);
    total.merge(one);
    total.merge(other);
    CHECK(total.check({"x", 0.1}).error == 0.5);
    CHECK_EQUAL(total.check({"x", 0.1}).first_wrong.dump(), "{\"element\":5,\"value\":2.2,\"expected\":2}");
}

TEST(oracle_a_check_passes_up_to_its_tolerance) {
    tenken::Check check;
    check.of.tolerance = 1e-9;
    check.error = 1e-9;
    CHECK(check.passed());
    check.error = 1.01e-9;
    CHECK(!check.passed());
    check.error = std::numeric_limits<double>::quiet_NaN();
    CHECK(!check.passed());
}

TEST(oracle_nothing_compared_is_nothing_verified) {
    char name[] = "program";
    char* arguments[] = {name, nullptr};
    tenken::Document document("program", 1, arguments);
    CHECK(!document.checked());
    tenken::Check good;
    good.of.name = "all";
    document.add(good);
    CHECK(document.checked());
}

TEST(oracle_the_interval_of_a_median_counts_signs) {
    std::vector<double> hundred;
    for (int i = 0; i < 100; ++i) hundred.push_back(i * 37 % 100);
    // of 100 tosses, 36 heads or fewer have a probability of 0.33 %, 37 or fewer 0.60 %
    const file_io::Interval interval = file_io::median_interval(hundred, 0.005);
    CHECK(interval.low == 36 && interval.high == 63 && near(interval.median, 49.5));
}

TEST(oracle_a_ratio_is_of_the_others_time) {
    const std::vector<double> twice = file_io::against_best({1, 1, 1, 1}, {{2, 2, 2, 2}, {3, 3, 3, 3}});
    for (double ratio : twice) CHECK(near(ratio, 2));
    const std::vector<double> pairs = file_io::pair_ratios({4, 4}, {1, 2, 3});
    CHECK(pairs.size() == 2 && near(pairs[0], 0.25) && near(pairs[1], 0.5));
}

TEST(stencil_rounds_two_operations_a_point_and_step) {
    // 10 steps of 27 points in double precision: 540 times 2^-52
    CHECK(stencil::rounding_bound<double>(10, 27) == 540 * 2.220446049250313e-16);
    CHECK(stencil::rounding_bound<float>(3, 7) == 42 * 1.1920928955078125e-07);
    CHECK(stencil::rounding_bound<double>(0, 27) == 0);
}
