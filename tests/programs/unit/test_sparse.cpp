#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/sparse/generators.h"
#include "lib/sparse/matrix_market.h"
#include "lib/sparse/sell.h"
#include "programs/spmv/partition.h"
#include "programs/spmv/reference.h"
#include "programs/spmv/sorted.h"
#include "unit.h"

namespace {

const std::vector<std::string> specs = {"poisson7:9",   "poisson27:9",   "fem:5",     "tridiagonal:300",
                                        "banded:200:7", "random:500:12", "rmat:9:16", "poisson27:1",
                                        "fem:1",        "tridiagonal:1", "rmat:1:1",  "rmat:11:40"};

sparse::MarketMatrix market(const std::string& text, std::uint64_t maximum = std::uint64_t{1} << 30) {
    return sparse::read_market([&] { return sparse::open_memory(text.data(), text.size()); }, "m", maximum);
}

std::string complaint(const std::string& text, std::uint64_t maximum = std::uint64_t{1} << 30) {
    return unit::thrown<sparse::MarketError>([&] { market(text, maximum); });
}

const std::string real_general = "%%MatrixMarket matrix coordinate real general\n";

/// y = A x, in plain loops.
std::vector<double> product(const sparse::Csr& a, const std::vector<double>& x) {
    std::vector<double> y;
    for (std::size_t r = 0; r < static_cast<std::size_t>(a.rows); ++r) {
        double sum = 0;
        for (int j = a.offsets[r]; j < a.offsets[r + 1]; ++j) {
            const auto entry = static_cast<std::size_t>(j);
            sum += a.value[entry] * x[static_cast<std::size_t>(a.column[entry])];
        }
        y.push_back(sum);
    }
    return y;
}

}  // namespace

TEST(generated_matrices_are_matrices_and_keep_their_promises) {
    for (const std::string& text : specs) {
        const sparse::Spec spec = sparse::parse_spec(text);
        const sparse::Csr matrix = sparse::generate(spec, 7);
        CHECK_EQUAL(unit::thrown<std::runtime_error>([&] { sparse::check(matrix); }), "");
        CHECK(static_cast<std::uint64_t>(matrix.rows) == spec.rows());
        CHECK(static_cast<std::uint64_t>(matrix.entries()) <= spec.entries());
        const sparse::Csr again = sparse::generate(spec, 7);
        CHECK(std::equal(matrix.value.data(), matrix.value.data() + matrix.entries(), again.value.data()));
        CHECK(std::equal(matrix.column.data(), matrix.column.data() + matrix.entries(), again.column.data()));
    }
    for (const char* exact : {"poisson7:9", "poisson27:9", "fem:5", "tridiagonal:300"}) {
        const sparse::Spec spec = sparse::parse_spec(exact);
        CHECK(static_cast<std::uint64_t>(sparse::generate(spec, 1).entries()) == spec.entries());
    }
}

TEST(a_wrong_spec_is_named_with_what_is_allowed) {
    const auto thrown = [](const std::string& text) {
        return unit::thrown<std::invalid_argument>([&] { sparse::parse_spec(text); });
    };
    CHECK(thrown("cube:3").find("kind 'cube' is none of poisson7, poisson27, fem") == 0);
    CHECK_EQUAL(thrown("poisson27"), "'poisson27' is not poisson27:SIZE");
    CHECK_EQUAL(thrown("poisson27:3:4"), "'poisson27:3:4' is not poisson27:SIZE");
    CHECK_EQUAL(thrown("poisson27:0"), "size '0' is not a whole number from 1 to 1290");
    CHECK_EQUAL(thrown("random:10:x"), "width 'x' is not a whole number from 1 to 100000");
    CHECK(thrown("poisson27:500").find("would have 3361517992 entries") != std::string::npos);
}

TEST(the_least_matrix_of_a_size_has_that_size) {
    const sparse::Spec spec = sparse::spec_of_bytes("poisson27", 1000000);
    CHECK(sparse::csr_bytes(spec.rows(), spec.entries()) >= 1000000);
    sparse::Spec smaller = spec;
    --smaller.size;
    CHECK(sparse::csr_bytes(smaller.rows(), smaller.entries()) < 1000000);
}

TEST(sliced_ell_holds_every_entry_once) {
    for (const std::string& text : specs) {
        const sparse::Csr matrix = sparse::generate(sparse::parse_spec(text), 3);
        for (int height : {8, 32, 64}) {
            const sparse::Sell<double> sell =
                sparse::to_sell<double>(matrix, height, sparse::sell_offsets(matrix, height));
            std::int64_t entries = 0;
            for (std::int64_t place = 0; place < sell.places(); ++place) {
                entries += sell.column[static_cast<std::size_t>(place)] >= 0;
            }
            CHECK(entries == matrix.entries());
        }
    }
}

TEST(tiles_and_bins_take_every_entry_once) {
    for (const std::string& text : specs) {
        const sparse::Csr matrix = sparse::generate(sparse::parse_spec(text), 3);
        const auto rows = static_cast<std::size_t>(matrix.rows);
        std::vector<int> taken(rows);  // entries by row
        const spmv::Tiling tiling = spmv::tile_rows(matrix, 16, 40);
        for (const spmv::Tile& tile : tiling.tiles) {
            CHECK(tile.last_entry - tile.first_entry <= std::min(tiling.largest, 40));
            if (tile.last_row < 0) {
                taken[static_cast<std::size_t>(tile.first_row)] += tile.last_entry - tile.first_entry;
                continue;
            }
            CHECK(tile.last_row > tile.first_row && tile.last_row - tile.first_row <= 16);
            for (auto r = static_cast<std::size_t>(tile.first_row);
                 r < static_cast<std::size_t>(tile.last_row); ++r) {
                taken[r] += matrix.offsets[r + 1] - matrix.offsets[r];
            }
        }
        const spmv::Binning binning = spmv::bin_rows(matrix);
        std::vector<int> listed(rows);
        for (int row : binning.rows) ++listed[static_cast<std::size_t>(row)];
        for (const spmv::SplitRow& row : binning.split) ++listed[static_cast<std::size_t>(row.row)];
        int lanes = 32;
        for (int place = 0; place < spmv::classes; ++place, lanes /= 2) {
            const int warps = binning.classes.first_warp[place + 2] - binning.classes.first_warp[place + 1];
            const int members = binning.classes.first_row[place + 1] - binning.classes.first_row[place];
            CHECK(warps * (32 / lanes) >= members && (warps - 1) * (32 / lanes) < std::max(members, 1));
        }
        for (std::size_t r = 0; r < rows; ++r) {
            CHECK(taken[r] == matrix.offsets[r + 1] - matrix.offsets[r]);
            CHECK(listed[r] == 1);
        }
    }
}

TEST(tasks_hold_the_matrix) {
    for (const std::string& text : specs) {
        const sparse::Csr matrix = sparse::generate(sparse::parse_spec(text), 3);
        std::vector<double> x;
        for (int i = 0; i < matrix.columns; ++i) x.push_back(std::sin(i + 1.0));
        for (const int longest : {4, 64}) {
            const spmv::Tasks tasks = spmv::make_tasks(matrix, longest);
            const spmv::BusyColumns busy = spmv::busiest_columns(matrix, 20);
            const spmv::Places<double> places = spmv::fill_places<double>(matrix, tasks, busy.columns);
            std::vector<double> y(static_cast<std::size_t>(matrix.rows));
            std::vector<double> partial(static_cast<std::size_t>(tasks.partial_sums));
            std::vector<int> written(y.size());
            std::uint64_t next = 0;
            int before = std::numeric_limits<int>::max();
            for (const spmv::Task& task : tasks.list) {
                CHECK(task.first == next && task.first % spmv::task_alignment == 0);
                CHECK(task.places <= before);  // the longest first
                before = task.places;
                next += static_cast<std::uint64_t>((task.places + spmv::task_alignment - 1) /
                                                   spmv::task_alignment * spmv::task_alignment);
                for (int p = 0; p < task.places; ++p) {
                    const std::size_t place = task.first + static_cast<std::size_t>(p);
                    const int column = places.column[place];
                    const auto kept = static_cast<std::size_t>(-1 - column);
                    double product = 0;
                    if (column >= 0) {
                        product = places.value[place] * x[static_cast<std::size_t>(column)];
                    } else if (kept < busy.columns.size()) {
                        product = places.value[place] * x[static_cast<std::size_t>(busy.columns[kept])];
                    } else {
                        CHECK(kept == busy.columns.size() && places.value[place] == 0);
                    }
                    if (task.slice >= 0 && p % spmv::task_lanes < task.rows) {
                        const int row =
                            tasks.rows[static_cast<std::size_t>(task.slice + p % spmv::task_lanes)];
                        y[static_cast<std::size_t>(row)] += product;
                    } else if (task.slice < 0 && task.rows >= 0) {
                        y[static_cast<std::size_t>(task.rows)] += product;
                    } else if (task.slice < 0) {
                        partial[static_cast<std::size_t>(-1 - task.rows)] += product;
                    } else {
                        CHECK(product == 0);
                    }
                }
                if (task.slice < 0) {
                    CHECK(task.places <= spmv::longest_piece);
                    if (task.rows >= 0) ++written[static_cast<std::size_t>(task.rows)];
                } else {
                    CHECK(task.rows <= (task.places > 0 ? spmv::task_lanes : spmv::empty_rows_a_task));
                    for (int i = 0; i < task.rows; ++i) {
                        ++written[static_cast<std::size_t>(
                            tasks.rows[static_cast<std::size_t>(task.slice + i)])];
                    }
                }
            }
            CHECK(next == tasks.places);
            for (const spmv::SplitRow& row : tasks.split) {
                ++written[static_cast<std::size_t>(row.row)];
                for (int p = row.first_piece; p < row.last_piece; ++p) {
                    y[static_cast<std::size_t>(row.row)] += partial[static_cast<std::size_t>(p)];
                }
            }
            CHECK(std::all_of(written.begin(), written.end(), [](int times) { return times == 1; }));
            const std::vector<double> right = product(matrix, x);
            for (std::size_t r = 0; r < y.size(); ++r) CHECK(std::fabs(y[r] - right[r]) < 1e-11);
        }
    }
}

TEST(busy_columns_are_those_with_the_most_entries) {
    const sparse::Csr matrix = sparse::generate(sparse::parse_spec("rmat:9:16"), 3);
    std::vector<int> entries(static_cast<std::size_t>(matrix.columns));
    for (int j = 0; j < matrix.entries(); ++j)
        ++entries[static_cast<std::size_t>(matrix.column[static_cast<std::size_t>(j)])];
    const spmv::BusyColumns busy = spmv::busiest_columns(matrix, 40);
    CHECK(busy.columns.size() == 40 && std::is_sorted(busy.columns.begin(), busy.columns.end()));
    int inside = 0;
    int minimum = matrix.entries();
    for (const int column : busy.columns) {
        inside += entries[static_cast<std::size_t>(column)];
        minimum = std::min(minimum, entries[static_cast<std::size_t>(column)]);
        entries[static_cast<std::size_t>(column)] = 0;
    }
    CHECK(*std::max_element(entries.begin(), entries.end()) <= minimum);
    CHECK(std::fabs(busy.share * matrix.entries() - inside) < 1e-6);
    CHECK(spmv::busiest_columns(matrix, 1 << 20).share == 1);
}

TEST(a_reference_passes_what_is_right_and_nothing_else) {
    const sparse::Csr matrix = sparse::generate(sparse::parse_spec("rmat:10:16"), 3);
    spmv::Problem problem;
    problem.matrix = &matrix;
    for (int i = 0; i < matrix.columns; ++i) problem.x.push_back(std::sin(i));
    const spmv::Reference reference(problem);
    std::vector<double> y = product(matrix, problem.x);
    CHECK(reference.check(y, tenken::Subject::host(), {}).passed());
    const std::size_t row = reference.largest_row();
    const double right = y[row];
    y[row] = tenken::with_flipped_bit(right);
    CHECK(!reference.check(y, tenken::Subject::host(), {}).passed());
    y[row] = std::numeric_limits<double>::quiet_NaN();
    const std::string wrong = reference.check(y, tenken::Subject::host(), {}).first_wrong.dump();
    CHECK(wrong.find("{\"row\":" + std::to_string(row) + ",\"value\":\"nan\"") == 0);
    y[row] = right;
    y.pop_back();
    CHECK(!reference.check(y, tenken::Subject::host(), {}).passed());
}

TEST(a_row_is_held_by_the_bound_of_its_own_precision) {
    // a row of 1000 ones times ones: 1001 roundings of a sum of 1000, each of half a unit of the precision
    sparse::Csr matrix;
    matrix.rows = 1;
    matrix.columns = 1000;
    matrix.offsets = sparse::Buffer<int>(2);
    matrix.column = sparse::Buffer<int>(1000);
    matrix.value = sparse::Buffer<double>(1000);
    matrix.offsets[0] = 0;
    matrix.offsets[1] = 1000;
    for (int i = 0; i < 1000; ++i) {
        matrix.column[static_cast<std::size_t>(i)] = i;
        matrix.value[static_cast<std::size_t>(i)] = 1;
    }
    for (const bool single : {false, true}) {
        spmv::Problem problem;
        problem.matrix = &matrix;
        problem.single = single;
        problem.x.assign(1000, 1.0);
        const spmv::Reference reference(problem);
        const double bound = 1001 * std::ldexp(1, single ? -24 : -53) * 1000;
        for (const double sign : {-1.0, 1.0}) {
            CHECK(reference.check({1000 + sign * 0.99 * bound}, tenken::Subject::host(), {}).passed());
            CHECK(!reference.check({1000 + sign * 1.01 * bound}, tenken::Subject::host(), {}).passed());
        }
    }
}

TEST(balanced_rows_begin_and_end_with_the_matrix) {
    const sparse::Csr matrix = sparse::generate(sparse::parse_spec("rmat:10:16"), 3);
    const std::vector<int> rows = sparse::balanced_rows(matrix, 7);
    CHECK(rows.size() == 8 && rows.front() == 0 && rows.back() == matrix.rows);
    CHECK(std::is_sorted(rows.begin(), rows.end()));
}

TEST(matrix_market_files_of_every_kind_are_read) {
    const sparse::MarketMatrix a = market(
        "%%matrixmarket MATRIX Coordinate Real General\n%\n\n 2 3 3 \n2 3 -1.5e1\n\n"
        "% odd\n1 2 .25\n1\t1 3.\n");
    CHECK(a.matrix.rows == 2 && a.matrix.columns == 3 && a.matrix.entries() == 3);
    CHECK(a.matrix.value[0] == 3 && a.matrix.value[1] == 0.25 && a.matrix.value[2] == -15);
    CHECK(a.matrix.column[0] == 0 && a.matrix.column[1] == 1 && a.matrix.column[2] == 2);
    const sparse::MarketMatrix skew =
        market("%%MatrixMarket matrix coordinate real skew-symmetric\r\n2 2 1\r\n2 1 4\r\n");
    CHECK(skew.matrix.entries() == 2 && skew.matrix.value[0] == -4 && skew.matrix.value[1] == 4);
    const sparse::MarketMatrix symmetric =
        market("%%MatrixMarket matrix array integer symmetric\n2 2\n1\n2\n3\n");
    CHECK(symmetric.matrix.entries() == 4 && symmetric.matrix.value[1] == 2 &&
          symmetric.matrix.value[2] == 2);
    const sparse::MarketMatrix pattern =
        market("%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1");
    CHECK(pattern.matrix.entries() == 1 && pattern.matrix.value[0] == 1);
    const sparse::MarketMatrix counts =
        market("%%MatrixMarket matrix coordinate unsigned-integer general\n%\n3 3 2\n2 1 88\n3 3 33\n");
    CHECK(counts.matrix.entries() == 2 && counts.matrix.value[0] == 88 && counts.matrix.value[1] == 33);
    CHECK(market("%%MatrixMarket matrix array unsigned-integer general\n1 2\n0\n7\n").matrix.value[1] == 7);
    CHECK(market("%%MatrixMarket matrix coordinate real general\n2 2 0\n").matrix.entries() == 0);
    CHECK_EQUAL(skew.header.text(), "coordinate real skew-symmetric");
}

TEST(numbers_of_a_file_are_read_to_the_last_bit) {
    for (const char* text : {"0.1", "123456789012345678", "1.7976931348623157e308", "4.9e-324", "-0.0",
                             "1e22", "1e-22", "3.14159265358979323846264338327950288", "9007199254740993",
                             "000000000000000000000.5", "0.00000000000000000000000000000123", "1e23"}) {
        const sparse::MarketMatrix one = market(real_general + "1 1 1\n1 1 " + text + "\n");
        CHECK(one.matrix.value[0] == std::strtod(text, nullptr));
    }
}

TEST(bad_files_are_named_with_line_and_reason) {
    CHECK_EQUAL(complaint(""), "m:1: the file is empty");
    CHECK_EQUAL(complaint("1 1 1\n"), "m:1: no header; a Matrix Market file begins with %%MatrixMarket");
    CHECK_EQUAL(complaint("%%MatrixMarket matrix coordinate complex general\n"),
                "m:1: the field is 'complex'; allowed: real, double, integer, unsigned-integer, pattern");
    CHECK_EQUAL(complaint("%%MatrixMarket matrix coordinate real hermitian\n"),
                "m:1: the symmetry is 'hermitian'; allowed: general, symmetric, skew-symmetric");
    CHECK_EQUAL(complaint("%%MatrixMarket matrix array pattern general\n"),
                "m:1: an array cannot be a pattern");
    CHECK_EQUAL(complaint(real_general), "m:1: the file ends before its sizes");
    CHECK_EQUAL(complaint(real_general + "2 2\n"), "m:2: the number of entries is missing");
    CHECK_EQUAL(complaint(real_general + "0 2 0\n"),
                "m:2: the number of rows is '0'; allowed: a whole number from 1 to 2147483646");
    CHECK_EQUAL(complaint("%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n"),
                "m:2: a symmetric matrix of 2 x 3 is not square");
    CHECK_EQUAL(complaint(real_general + "2 2 2\n1 1 1\n"), "m:3: the file ends after 1 of 2 entries");
    CHECK_EQUAL(complaint(real_general + "2 2 1\n1 1 1\n2 2 1\n"), "m:4: more than the 1 entries announced");
    CHECK_EQUAL(complaint(real_general + "2 2 1\n3 1 1\n"),
                "m:3: the row is '3'; allowed: a whole number from 1 to 2");
    CHECK_EQUAL(complaint(real_general + "2 2 1\n1 0 1\n"),
                "m:3: the column is '0'; allowed: a whole number from 1 to 2");
    CHECK_EQUAL(complaint(real_general + "2 2 1\n1 1 nan\n"),
                "m:3: the value is 'nan'; allowed: a finite number");
    CHECK_EQUAL(complaint(real_general + "2 2 1\n1 1 1e999\n"),
                "m:3: the value is '1e999'; allowed: a finite number");
    CHECK_EQUAL(complaint(real_general + "2 2 1\n1 1\n"), "m:3: the value is missing");
    CHECK_EQUAL(complaint(real_general + "2 2 1\n1 1 1 7\n"), "m:3: '7' is more than belongs on this line");
    CHECK_EQUAL(complaint(real_general + "2 2 3\n1 1 1\n2 2 1\n1 1 2\n"), "m:5: entry 1 1 is listed twice");
    CHECK_EQUAL(complaint("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 1\n"),
                "m:3: an entry above the diagonal of a symmetric matrix");
    CHECK_EQUAL(complaint("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 2 1\n"),
                "m:3: an entry on the diagonal of a skew-symmetric matrix");
    CHECK_EQUAL(
        complaint("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 2.5\n"),
        "m:3: the value is '2.5'; allowed: a whole number from -9007199254740992 to 9007199254740992");
    CHECK_EQUAL(complaint("%%MatrixMarket matrix coordinate unsigned-integer general\n1 1 1\n1 1 -2\n"),
                "m:3: the value is '-2'; allowed: a whole number from 0 to 9007199254740992");
    CHECK_EQUAL(complaint(real_general + "2 2 1\n1 1 " + std::string(2000, '1') + "\n"),
                "m:3: longer than 1024 characters");
    CHECK_EQUAL(complaint(real_general + "1000000 1000000 1000000\n", 1000000),
                "m:2: needs 0.0335 GiB of memory, free 0.000931 GiB");
    CHECK_EQUAL(complaint(real_general + "%" + std::string(3000000, 'x') + "\n1 1 1\n1 1 5\n"), "");
    CHECK_EQUAL(complaint(std::string(3000000, '1')), "m:1: longer than 1024 characters");
}
