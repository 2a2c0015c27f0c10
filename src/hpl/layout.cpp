#include "hpl/layout.h"

#include <algorithm>

namespace hpl {

namespace {

/// Rows that lie a large power of two apart would share the same memory channels and cache sets.
std::int64_t uneven(std::int64_t columns) {
    const std::int64_t padded = aligned(columns);
    return padded % (2 * alignment) == 0 ? padded + alignment : padded;
}

}  // namespace

Layout::Layout(std::int64_t order, std::int64_t block, int p, int q, int row, int column)
    : n(order),
      nb(block),
      rows{block, p, row},
      columns{block, q, column},
      local_rows(rows.below(order)),
      local_columns(columns.below(order + 1)),
      padded_columns(aligned(local_columns)),
      stride(uneven(local_columns)) {}

std::vector<Step> plan_steps(std::int64_t n, std::int64_t nb, std::int64_t taper, std::int64_t least) {
    std::vector<Step> steps;
    for (std::int64_t begin = 0; begin < n;) {
        std::int64_t width = nb;
        while (taper > 0 && width % 2 == 0 && width / 2 >= least && n - begin < taper * width) width /= 2;
        const std::int64_t to_border = nb - begin % nb;
        width = std::min({width, to_border, n - begin});
        steps.push_back({begin, width});
        begin += width;
    }
    return steps;
}

}  // namespace hpl
