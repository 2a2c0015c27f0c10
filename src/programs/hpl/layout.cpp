#include "programs/hpl/layout.h"

namespace hpl {

namespace {

/// Rows at a distance of a large power of two would share memory channels and cache sets.
std::int64_t uneven(std::int64_t columns) {
    const std::int64_t padded = aligned(columns);
    return padded % (2 * alignment) == 0 ? padded + alignment : padded;
}

}  // namespace

Layout::Layout(std::int64_t order, std::int64_t block, int p, int q, int row, int column)
    : lu::Distribution(order, order + 1, block, p, q, row, column),
      padded_columns(aligned(local_columns)),
      stride(uneven(local_columns)) {}

}  // namespace hpl
