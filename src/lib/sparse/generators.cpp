#include "lib/sparse/generators.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "lib/sparse/random.h"

namespace sparse {

namespace {

/// The entries of one row under construction.
struct Row {
    std::vector<int> column;
    std::vector<double> value;

    void clear() {
        column.clear();
        value.clear();
    }
    void add(std::int64_t at, double what) {
        column.push_back(static_cast<int>(at));
        value.push_back(what);
    }
};

/// Generates the rows twice: to count and to write the entries, both in parallel.
/// @param make make(r, row) appends the entries of row r, columns ascending
template <typename Make>
Csr build(std::uint64_t rows, const Make& make) {
    Csr matrix;
    matrix.rows = matrix.columns = static_cast<int>(rows);
    matrix.offsets = Buffer<int>(rows + 1);
    matrix.offsets[0] = 0;
#pragma omp parallel
    {
        Row row;
#pragma omp for schedule(static)
        for (std::int64_t r = 0; r < static_cast<std::int64_t>(rows); ++r) {
            row.clear();
            make(r, row);
            matrix.offsets[static_cast<std::size_t>(r) + 1] = static_cast<int>(row.column.size());
        }
    }
    accumulate(matrix.offsets);
    matrix.column = Buffer<int>(static_cast<std::size_t>(matrix.entries()));
    matrix.value = Buffer<double>(static_cast<std::size_t>(matrix.entries()));
#pragma omp parallel
    {
        Row row;
#pragma omp for schedule(static)
        for (std::int64_t r = 0; r < static_cast<std::int64_t>(rows); ++r) {
            row.clear();
            make(r, row);
            const auto at = static_cast<std::size_t>(matrix.offsets[static_cast<std::size_t>(r)]);
            std::copy(row.column.begin(), row.column.end(), matrix.column.data() + at);
            std::copy(row.value.begin(), row.value.end(), matrix.value.data() + at);
        }
    }
    return matrix;
}

/// Uniform in [-1, 1), by seed, row and column.
double any_value(std::uint64_t seed, std::int64_t row, std::int64_t column) {
    return 2 * unit_real(
                   mixed_bits(seed, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(column))) -
           1;
}

/// Coefficients of a spatially varying diffusion: all entries differ, so a product with a
/// wrong entry is detected.
double diffusion(std::uint64_t seed, std::int64_t row, std::int64_t column, double diagonal) {
    const double variation = any_value(seed, row, column) / 8;
    return row == column ? diagonal * (1 + variation) : -1 - variation;
}

/// Calls visit(neighbour) for the grid points around point r of an n^3 grid, in ascending order.
template <typename Visit>
void visit_neighbours(std::int64_t r, std::int64_t n, bool corners, const Visit& visit) {
    const std::int64_t x = r % n;
    const std::int64_t y = r / n % n;
    const std::int64_t z = r / n / n;
    for (std::int64_t dz = -1; dz <= 1; ++dz) {
        if (z + dz < 0 || z + dz >= n) continue;
        for (std::int64_t dy = -1; dy <= 1; ++dy) {
            if (y + dy < 0 || y + dy >= n) continue;
            for (std::int64_t dx = -1; dx <= 1; ++dx) {
                if (x + dx < 0 || x + dx >= n) continue;
                if (!corners && dx * dx + dy * dy + dz * dz > 1) continue;
                visit(r + (dz * n + dy) * n + dx);
            }
        }
    }
}

Csr poisson(const Spec& spec, std::uint64_t seed) {
    const bool corners = spec.kind == "poisson27";
    return build(spec.rows(), [&](std::int64_t r, Row& row) {
        visit_neighbours(r, spec.size, corners, [&](std::int64_t column) {
            row.add(column, diffusion(seed, r, column, corners ? 26 : 6));
        });
    });
}

/// Three unknowns at each point of a grid, each coupled with all of the 27 surrounding points.
Csr block_fem(const Spec& spec, std::uint64_t seed) {
    return build(spec.rows(), [&](std::int64_t r, Row& row) {
        visit_neighbours(r / 3, spec.size, true, [&](std::int64_t point) {
            for (std::int64_t column = 3 * point; column < 3 * point + 3; ++column) {
                row.add(column, r == column ? 81 : any_value(seed, r, column));
            }
        });
    });
}

Csr banded(const Spec& spec, std::uint64_t seed, std::int64_t half) {
    return build(spec.rows(), [&](std::int64_t r, Row& row) {
        const std::int64_t last = std::min<std::int64_t>(r + half, spec.size - 1);
        for (std::int64_t column = std::max<std::int64_t>(r - half, 0); column <= last; ++column) {
            row.add(column, any_value(seed, r, column));
        }
    });
}

/// `width` random columns for each row; duplicates are removed.
Csr uniform(const Spec& spec, std::uint64_t seed) {
    return build(spec.rows(), [&](std::int64_t r, Row& row) {
        for (std::int64_t k = 0; k < spec.width; ++k) {
            const std::uint64_t bits =
                mixed_bits(seed + 1, static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(k));
            row.column.push_back(static_cast<int>(bits % static_cast<std::uint64_t>(spec.size)));
        }
        std::sort(row.column.begin(), row.column.end());
        row.column.erase(std::unique(row.column.begin(), row.column.end()), row.column.end());
        for (int column : row.column) row.value.push_back(any_value(seed, r, column));
    });
}

/// R-MAT (Chakrabarti, Zhan and Faloutsos 2004) with the Graph500 probabilities 0.57, 0.19, 0.19, 0.05: every
/// edge descends through quadrants of the matrix. Rows keep their numbers (no shuffle).
struct Edge {
    std::uint32_t row;
    std::uint32_t column;
};
Edge rmat_edge(std::uint64_t seed, std::uint64_t index, std::int64_t levels) {
    Edge edge = {0, 0};
    std::uint64_t bits = 0;
    for (std::int64_t level = 0; level < levels; ++level) {
        if (level % 4 == 0) bits = mixed_bits(seed + 2, index, static_cast<std::uint64_t>(level));
        const std::uint64_t draw = bits & 0xffff;  // of 65536
        bits >>= 16;
        const bool down = draw >= 49807;                          // 0.76
        const bool right = down ? draw >= 62259 : draw >= 37356;  // 0.95, 0.57
        edge.row = edge.row << 1 | static_cast<std::uint32_t>(down);
        edge.column = edge.column << 1 | static_cast<std::uint32_t>(right);
    }
    return edge;
}

Csr rmat(const Spec& spec, std::uint64_t seed) {
    const std::uint64_t rows = spec.rows();
    const auto edges = static_cast<std::int64_t>(spec.entries());
    Buffer<int> begin(rows + 1);
    std::fill(begin.data(), begin.data() + rows + 1, 0);
#pragma omp parallel for schedule(static)
    for (std::int64_t e = 0; e < edges; ++e) {
        int& count = begin[rmat_edge(seed, static_cast<std::uint64_t>(e), spec.size).row + std::size_t{1}];
#pragma omp atomic
        ++count;
    }
    accumulate(begin);
    Buffer<int> next(rows);
    std::copy(begin.data(), begin.data() + rows, next.data());
    Buffer<int> column(static_cast<std::size_t>(edges));
#pragma omp parallel for schedule(static)
    for (std::int64_t e = 0; e < edges; ++e) {
        const Edge edge = rmat_edge(seed, static_cast<std::uint64_t>(e), spec.size);
        int place = 0;
#pragma omp atomic capture
        place = next[edge.row]++;
        column[static_cast<std::size_t>(place)] = static_cast<int>(edge.column);
    }
    // Threads arrive in any order: sorting makes the result unique. Duplicate edges are removed.
    Csr matrix;
    matrix.rows = matrix.columns = static_cast<int>(rows);
    matrix.offsets = Buffer<int>(rows + 1);
    matrix.offsets[0] = 0;
#pragma omp parallel for schedule(dynamic, 256)
    for (std::int64_t r = 0; r < static_cast<std::int64_t>(rows); ++r) {
        int* const from = column.data() + begin[static_cast<std::size_t>(r)];
        int* const to = column.data() + begin[static_cast<std::size_t>(r) + 1];
        std::sort(from, to);
        matrix.offsets[static_cast<std::size_t>(r) + 1] = static_cast<int>(std::unique(from, to) - from);
    }
    accumulate(matrix.offsets);
    matrix.column = Buffer<int>(static_cast<std::size_t>(matrix.entries()));
    matrix.value = Buffer<double>(static_cast<std::size_t>(matrix.entries()));
#pragma omp parallel for schedule(dynamic, 256)
    for (std::int64_t r = 0; r < static_cast<std::int64_t>(rows); ++r) {
        const auto row = static_cast<std::size_t>(r);
        for (int j = matrix.offsets[row]; j < matrix.offsets[row + 1]; ++j) {
            const int at = column[static_cast<std::size_t>(begin[row] + j - matrix.offsets[row])];
            matrix.column[static_cast<std::size_t>(j)] = at;
            matrix.value[static_cast<std::size_t>(j)] = any_value(seed, r, at);
        }
    }
    return matrix;
}

const Kind& find_kind(const std::string& name) {
    std::string allowed;
    for (const Kind& kind : kinds()) {
        if (name == kind.name) return kind;
        allowed += (allowed.empty() ? "" : ", ") + std::string(kind.name);
    }
    throw std::invalid_argument("kind '" + name + "' is none of " + allowed);
}

std::int64_t whole_number(const std::string& text, const char* what, std::int64_t minimum,
                          std::int64_t maximum) {
    const bool digits = !text.empty() && text.size() < 18 &&
                        std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    const std::int64_t number = digits ? std::stoll(text) : -1;
    if (number < minimum || number > maximum) {
        throw std::invalid_argument(std::string(what) + " '" + text + "' is not a whole number from " +
                                    std::to_string(minimum) + " to " + std::to_string(maximum));
    }
    return number;
}

}  // namespace

const std::vector<Kind>& kinds() {
    static const std::vector<Kind> list = {
        {"poisson7", "7-point stencil on a SIZE^3 grid", 1, 1290, 0, 0},
        {"poisson27", "27-point stencil on a SIZE^3 grid", 1, 1290, 0, 0},
        {"fem", "3 unknowns at each point of a SIZE^3 grid, 27 points coupled (blocks of 3 x 3)", 1, 890, 0,
         0},
        {"tridiagonal", "SIZE rows", 1, 2147483646, 0, 0},
        {"banded", "SIZE rows, WIDTH diagonals on either side", 1, 2147483646, 16, 100000},
        {"random", "SIZE rows, WIDTH columns drawn evenly for each", 1, 2147483646, 16, 100000},
        {"rmat", "R-MAT graph, 2^SIZE rows, WIDTH edges per row (power law)", 1, 30, 16, 100000}};
    return list;
}

std::string Spec::name() const {
    return kind + "_" + std::to_string(size) + (width > 0 ? "_" + std::to_string(width) : "");
}

std::uint64_t Spec::rows() const {
    const auto n = static_cast<std::uint64_t>(size);
    if (kind == "poisson7" || kind == "poisson27") return n * n * n;
    if (kind == "fem") return 3 * n * n * n;
    if (kind == "rmat") return std::uint64_t{1} << n;
    return n;
}

std::uint64_t Spec::entries() const {
    const auto n = static_cast<std::uint64_t>(size);
    const auto w = static_cast<std::uint64_t>(width);
    if (kind == "poisson7") return 7 * n * n * n - 6 * n * n;
    if (kind == "poisson27") return (3 * n - 2) * (3 * n - 2) * (3 * n - 2);
    if (kind == "fem") return 9 * (3 * n - 2) * (3 * n - 2) * (3 * n - 2);
    if (kind == "tridiagonal") return 3 * n - 2;
    if (kind == "banded") return n * std::min(2 * w + 1, n);
    return rows() * w;
}

Spec parse_spec(const std::string& text) {
    std::vector<std::string> parts;
    std::size_t from = 0;
    for (std::size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', from)) {
        parts.push_back(text.substr(from, colon - from));
        from = colon + 1;
    }
    parts.push_back(text.substr(from));
    const Kind& kind = find_kind(parts[0]);
    const std::size_t maximum = kind.default_width > 0 ? 3 : 2;
    if (parts.size() < 2 || parts.size() > maximum) {
        throw std::invalid_argument("'" + text + "' is not " + kind.name + ":SIZE" +
                                    (maximum == 3 ? "[:WIDTH]" : ""));
    }
    Spec spec;
    spec.kind = kind.name;
    spec.size = whole_number(parts[1], "size", kind.min_size, kind.max_size);
    spec.width = kind.default_width;
    if (parts.size() == 3) spec.width = whole_number(parts[2], "width", 1, kind.max_width);
    if (spec.entries() > max_entries || spec.rows() >= max_entries) {
        throw std::invalid_argument("'" + text + "' would have " + std::to_string(spec.entries()) +
                                    " entries; at most 2147483647 can be counted in 32 bit");
    }
    return spec;
}

Spec spec_of_bytes(const std::string& name, std::uint64_t bytes) {
    const Kind& kind = find_kind(name);
    Spec spec;
    spec.kind = kind.name;
    spec.width = kind.default_width;
    std::int64_t low = kind.min_size;
    std::int64_t high = kind.max_size;
    while (low < high) {
        spec.size = low + (high - low) / 2;
        if (csr_bytes(spec.rows(), spec.entries()) < bytes) {
            low = spec.size + 1;
        } else {
            high = spec.size;
        }
    }
    spec.size = low;
    return spec;
}

Csr generate(const Spec& spec, std::uint64_t seed) {
    if (spec.kind == "poisson7" || spec.kind == "poisson27") return poisson(spec, seed);
    if (spec.kind == "fem") return block_fem(spec, seed);
    if (spec.kind == "tridiagonal") return banded(spec, seed, 1);
    if (spec.kind == "banded") return banded(spec, seed, spec.width);
    if (spec.kind == "random") return uniform(spec, seed);
    return rmat(spec, seed);
}

}  // namespace sparse
