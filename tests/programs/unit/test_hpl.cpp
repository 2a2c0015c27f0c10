#include <cmath>
#include <map>

#include "programs/hpl/dat.h"
#include "programs/hpl/layout.h"
#include "programs/hpl/matrix.h"
#include "unit.h"

namespace {

std::string dat_with(int line, const std::string& text) {
    std::vector<std::string> lines = {"HPLinpack benchmark input file",
                                      "Innovative Computing Laboratory",
                                      "HPL.out      output file name (if any)",
                                      "6            device out (6=stdout,7=stderr,file)",
                                      "2            # of problems sizes (N)",
                                      "1000 2000    Ns",
                                      "1            # of NBs",
                                      "80           NBs",
                                      "0            PMAP process mapping (0=Row-,1=Column-major)",
                                      "2            # of process grids (P x Q)",
                                      "1 2          Ps",
                                      "4 2          Qs",
                                      "16.0         threshold"};
    if (line > 0) lines[static_cast<std::size_t>(line - 1)] = text;
    std::string all;
    for (const std::string& one : lines) all += one + "\n";
    return all;
}

std::string complaint(int line, const std::string& text) {
    return unit::thrown<hpl::DatError>([&] { hpl::parse_dat(dat_with(line, text), "HPL.dat"); });
}

}  // namespace

TEST(hpl_deals_every_element_to_one_process_and_the_same_matrix_to_every_grid) {
    constexpr std::int64_t n = 45;
    for (std::int64_t nb : {1, 7, 8, 64}) {
        for (const auto& grid : {std::pair<int, int>{1, 1}, {1, 2}, {2, 1}, {2, 2}, {3, 2}}) {
            std::map<std::pair<std::int64_t, std::int64_t>, double> found;
            std::int64_t held = 0;
            for (int row = 0; row < grid.first; ++row) {
                for (int column = 0; column < grid.second; ++column) {
                    const hpl::Layout part(n, nb, grid.first, grid.second, row, column);
                    CHECK(part.stride >= part.padded_columns && part.stride % hpl::alignment == 0);
                    held += part.local_rows * part.local_columns;
                    for (std::int64_t i = 0; i < part.local_rows; ++i) {
                        for (std::int64_t j = 0; j < part.local_columns; ++j) {
                            const std::int64_t gi = part.rows.global(i);
                            const std::int64_t gj = part.columns.global(j);
                            CHECK(part.rows.owns(gi) && part.columns.owns(gj));
                            CHECK(part.rows.below(gi) == i && part.columns.below(gj) == j);
                            found[{gi, gj}] = hpl::element(3, gi, gj);
                        }
                    }
                }
            }
            CHECK(held == n * (n + 1) && static_cast<std::int64_t>(found.size()) == held);
            for (std::int64_t i = 0; i < n; ++i)
                for (std::int64_t j = 0; j <= n; ++j)
                    CHECK((found[{i, j}]) == (hpl::Matrix{3, n, hpl::Broken::none}(i, j)));
        }
    }
}

TEST(hpl_elements_are_uniform_and_independent_of_their_neighbours) {
    constexpr int n = 400;
    double sum = 0;
    double squares = 0;
    double beside = 0;
    double below = 0;
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            const double value = hpl::element(1, i, j);
            CHECK(value >= -0.5 && value < 0.5);
            sum += value;
            squares += value * value;
            beside += value * hpl::element(1, i, j + 1);
            below += value * hpl::element(1, i + 1, j);
        }
    }
    const double count = n * n;
    // 5 standard deviations of each
    CHECK(std::fabs(sum / count) < 5 * std::sqrt(1.0 / 12 / count));
    CHECK(std::fabs(squares / count - 1.0 / 12) < 5 * std::sqrt(1.0 / 180 / count));
    CHECK(std::fabs(beside / count) < 5 / 12.0 / std::sqrt(count));
    CHECK(std::fabs(below / count) < 5 / 12.0 / std::sqrt(count));
    CHECK(hpl::element(1, 5, 7) != hpl::element(2, 5, 7));
    CHECK(hpl::element(1, 5, 7) != hpl::element(1, 7, 5));
}

TEST(hpl_breaks_one_element_or_one_column) {
    const hpl::Matrix none = {1, 10, hpl::Broken::none};
    const hpl::Matrix nan = {1, 10, hpl::Broken::not_a_number};
    const hpl::Matrix zero = {1, 10, hpl::Broken::zero_column};
    int different = 0;
    for (int i = 0; i < 10; ++i) {
        CHECK(zero(i, 5) == 0);
        for (int j = 0; j <= 10; ++j) {
            if (std::isnan(nan(i, j))) ++different;
            CHECK(std::isfinite(none(i, j)));
        }
    }
    CHECK(different == 1);
}

TEST(hpl_steps_cover_all_columns_and_cross_no_border) {
    for (std::int64_t n : {1, 2, 63, 64, 65, 1000, 4096, 5001}) {
        for (std::int64_t nb : {1, 37, 64, 512}) {
            for (std::int64_t taper : {0, 4, 16}) {
                std::int64_t next = 0;
                for (const hpl::Step& step : hpl::plan_steps(n, nb, taper, 64)) {
                    CHECK(step.begin == next && step.width >= 1 && step.width <= nb);
                    CHECK(step.begin / nb == (step.end() - 1) / nb);
                    next = step.end();
                }
                CHECK(next == n);
            }
        }
    }
    CHECK(hpl::plan_steps(4096, 512, 4, 64).back().width == 64);
    CHECK(hpl::plan_steps(4096, 512, 0, 64).back().width == 512);
}

TEST(hpl_dat_is_read) {
    const hpl::Dat dat = hpl::parse_dat(dat_with(0, ""), "HPL.dat");
    CHECK(dat.n == (std::vector<std::int64_t>{1000, 2000}) && dat.nb == (std::vector<std::int64_t>{80}));
    CHECK(dat.p == (std::vector<int>{1, 2}) && dat.q == (std::vector<int>{4, 2}));
    CHECK(dat.by_rows && dat.threshold == 16 && dat.output == hpl::Dat::Output::standard);
    CHECK(hpl::parse_dat(dat_with(4, "8 device out"), "HPL.dat").output_file == "HPL.out");
    CHECK(hpl::parse_dat(dat_with(4, "7 device out"), "HPL.dat").output == hpl::Dat::Output::error);
    CHECK(!hpl::parse_dat(dat_with(9, "1 PMAP"), "HPL.dat").by_rows);
}

TEST(hpl_dat_that_is_wrong_is_named_by_line_and_field) {
    CHECK_EQUAL(complaint(6, "1000 Ns"), "HPL.dat:6: Ns: 'Ns' is not a whole number from 1 to 4000000");
    CHECK_EQUAL(complaint(6, "1000"), "HPL.dat:6: Ns: 1 values; 2 are announced");
    CHECK_EQUAL(complaint(6, "0 1000"), "HPL.dat:6: Ns: '0' is not a whole number from 1 to 4000000");
    CHECK_EQUAL(complaint(8, "-8 NBs"), "HPL.dat:8: NBs: '-8' is not a whole number from 1 to 4096");
    CHECK_EQUAL(complaint(8, "80x NBs"), "HPL.dat:8: NBs: '80x' is not a whole number from 1 to 4096");
    CHECK_EQUAL(complaint(5, "21 Ns"),
                "HPL.dat:5: # of problems sizes (N): '21' is not a whole number from 1 to 20");
    CHECK_EQUAL(complaint(9, "2 PMAP"),
                "HPL.dat:9: PMAP process mapping: '2' is not a whole number from 0 to 1");
    CHECK_EQUAL(complaint(13, "nan"), "HPL.dat:13: threshold: 'nan' is not a number above 0 and at most 16");
    CHECK_EQUAL(complaint(13, "-1"), "HPL.dat:13: threshold: '-1' is not a number above 0 and at most 16");
    CHECK_EQUAL(complaint(3, "") + complaint(4, ""), "HPL.dat:4: device out: 0 values; 1 are announced");
    CHECK_EQUAL(unit::thrown<hpl::DatError>([] { hpl::parse_dat("one\ntwo\n", "HPL.dat"); }),
                "HPL.dat:4: device out: the file ends after 2 lines");
}
