// Which of the products that were tried beforehand speaks for another one, and what it leaves to a panel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "programs/hpl_mxp/engine.h"

namespace mxp {

/// What decides which algorithm is the fastest. Columns of the right operand do not: there are always many.
struct ProductKind {
    Low low;
    std::int64_t rows;
    std::int64_t k;
    int multiprocessors;  ///< that the product keeps to, beside a panel; 0: all
};

/// Rows of a product and of the one that speaks for it differ by at most this factor.
constexpr double alike = 4;

/// The index of the one with the same format and k, beside a panel or not, whose rows are the closest by
/// ratio; tried.size() where there is none.
inline std::size_t closest(const std::vector<ProductKind>& tried, const ProductKind& wanted) {
    std::size_t found = tried.size();
    double apart = std::log2(alike) + 1e-9;
    for (std::size_t i = 0; i < tried.size(); ++i) {
        const ProductKind& one = tried[i];
        if (one.low != wanted.low || one.k != wanted.k ||
            (one.multiprocessors == 0) != (wanted.multiprocessors == 0))
            continue;
        const double here =
            std::fabs(std::log2(static_cast<double>(wanted.rows) / static_cast<double>(one.rows)));
        if (here < apart) {
            apart = here;
            found = i;
        }
    }
    return found;
}

/// Rows below which a panel that has `panel_multiprocessors` takes longer than the update beside it on one
/// process: 54,000 on an H200, by the phases of N = 163840.
constexpr double panel_is_longer = 54000;
/// How many times as many it has at most.
constexpr double maximum_share = 4;

/// Multiprocessors that an update of so many rows leaves to the panel beside it. An update becomes shorter as
/// the square of the rows and with more processes, a panel only as the rows: from where it is the longer of
/// the two it has more of them, so that both end together.
inline int panel_share(int panel_multiprocessors, std::int64_t rows, int processes, int multiprocessors) {
    const double longer = panel_is_longer * processes / static_cast<double>(std::max<std::int64_t>(rows, 1));
    const double share = panel_multiprocessors * std::min(std::max(longer, 1.0), maximum_share);
    return std::max(std::min(static_cast<int>(share), multiprocessors / 4),
                    std::min(panel_multiprocessors, multiprocessors - 1));
}

}  // namespace mxp
