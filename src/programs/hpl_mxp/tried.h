// Which of the trial products represents another one, and the multiprocessors left to a panel.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "programs/hpl_mxp/engine.h"

namespace mxp {

/// The parameters that determine the fastest algorithm. The columns of the right operand do not matter, since
/// there are always many.
struct ProductKind {
    Low low;
    std::int64_t rows;
    std::int64_t k;
    int multiprocessors;  ///< used by the product, concurrently with a panel; 0: all
};

/// Maximum ratio between the rows of a product and of its representative.
constexpr double alike = 4;

/// The index of the one with the same format and k, concurrent with a panel or not, with the closest rows by
/// ratio; tried.size() if there is none.
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

/// Rows below which a panel with `panel_multiprocessors` takes longer than the concurrent update on one
/// process: 54,000 on an H200, by the phases of N = 163840.
constexpr double panel_is_longer = 54000;
/// Maximum factor by which this number is increased.
constexpr double maximum_share = 4;

/// Multiprocessors that an update of this many rows leaves to the concurrent panel. The time of an update
/// decreases with the square of the rows and with the number of processes, that of a panel only with the
/// rows. When the panel takes longer, it gets more of the multiprocessors, so that both end together.
inline int panel_share(int panel_multiprocessors, std::int64_t rows, int processes, int multiprocessors) {
    const double longer = panel_is_longer * processes / static_cast<double>(std::max<std::int64_t>(rows, 1));
    const double share = panel_multiprocessors * std::min(std::max(longer, 1.0), maximum_share);
    return std::max(std::min(static_cast<int>(share), multiprocessors / 4),
                    std::min(panel_multiprocessors, multiprocessors - 1));
}

}  // namespace mxp
