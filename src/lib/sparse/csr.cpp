#include "lib/sparse/csr.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace sparse {

std::uint64_t csr_bytes(std::uint64_t rows, std::uint64_t entries) {
    return (rows + 1) * sizeof(int) + entries * (sizeof(int) + sizeof(double));
}

void check(const Csr& matrix) {
    const auto wrong = [](int row, const std::string& what) {
        throw std::runtime_error("row " + std::to_string(row) + ": " + what);
    };
    if (matrix.rows < 0 || matrix.columns < 0)
        throw std::runtime_error("a negative number of rows or columns");
    if (matrix.rows > 0 && matrix.offsets[0] != 0) wrong(0, "does not begin at entry 0");
    for (int r = 0; r < matrix.rows; ++r) {
        const int begin = matrix.offsets[static_cast<std::size_t>(r)];
        const int end = matrix.offsets[static_cast<std::size_t>(r) + 1];
        if (end < begin) wrong(r, "ends before it begins");
        for (int j = begin; j < end; ++j) {
            const int column = matrix.column[static_cast<std::size_t>(j)];
            if (column < 0 || column >= matrix.columns) {
                wrong(r, "column " + std::to_string(column) + " of " + std::to_string(matrix.columns));
            }
            if (j > begin && column <= matrix.column[static_cast<std::size_t>(j) - 1]) {
                wrong(r, "columns do not ascend");
            }
        }
    }
}

void accumulate(Buffer<int>& counts) {
    std::uint64_t sum = 0;
    for (std::size_t r = 1; r < counts.size(); ++r) {
        sum += static_cast<std::uint64_t>(counts[r]);
        if (sum > max_entries) {
            throw std::runtime_error("more than 2147483647 entries; entries are counted in 32 bit");
        }
        counts[r] = static_cast<int>(sum);
    }
}

RowLengths row_lengths(const Csr& matrix) {
    RowLengths lengths;
    if (matrix.rows == 0) return lengths;
    lengths.minimum = matrix.entries();
    double squares = 0;
    for (std::size_t r = 0; r < static_cast<std::size_t>(matrix.rows); ++r) {
        const int length = matrix.offsets[r + 1] - matrix.offsets[r];
        lengths.minimum = std::min(lengths.minimum, length);
        lengths.maximum = std::max(lengths.maximum, length);
        squares += static_cast<double>(length) * length;
        std::size_t bin = 0;
        for (int rest = length; rest > 0; rest /= 2) ++bin;
        if (lengths.histogram.size() <= bin) lengths.histogram.resize(bin + 1);
        ++lengths.histogram[bin];
    }
    lengths.mean = static_cast<double>(matrix.entries()) / matrix.rows;
    lengths.deviation = std::sqrt(std::max(0.0, squares / matrix.rows - lengths.mean * lengths.mean));
    return lengths;
}

std::string RowLengths::text() const {
    std::string text;
    for (std::size_t bin = 0; bin < histogram.size(); ++bin) {
        if (histogram[bin] == 0) continue;
        if (!text.empty()) text += ", ";
        const std::int64_t from = bin == 0 ? 0 : std::int64_t{1} << (bin - 1);
        const std::int64_t to = bin == 0 ? 0 : 2 * from - 1;
        text += std::to_string(from);
        if (to > from) text += "-" + std::to_string(to);
        text += ": " + std::to_string(histogram[bin]);
    }
    return text;
}

std::vector<int> balanced_rows(const Csr& matrix, int parts) {
    std::vector<int> rows;
    const std::int64_t all = static_cast<std::int64_t>(matrix.rows) + matrix.entries();
    int low = 0;
    for (int part = 0; part < parts; ++part) {
        const std::int64_t wanted = all * part / parts;
        int high = matrix.rows;
        while (low < high) {  // the first row r with r + offsets[r] >= wanted
            const int middle = low + (high - low) / 2;
            if (middle + static_cast<std::int64_t>(matrix.offsets[static_cast<std::size_t>(middle)]) <
                wanted) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        rows.push_back(low);
    }
    rows.push_back(matrix.rows);
    return rows;
}

}  // namespace sparse
