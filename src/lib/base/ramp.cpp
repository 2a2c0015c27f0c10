#include "lib/base/ramp.h"

#include <algorithm>
#include <stdexcept>

#include "lib/base/statistics.h"

namespace tenken {

namespace {

double median_of(std::vector<double>::const_iterator begin, std::vector<double>::const_iterator end) {
    return order_statistics(std::vector<double>(begin, end), Direction::higher).median;
}

}  // namespace

Ramp find_ramp(const std::vector<double>& rates, double share) {
    if (rates.empty()) throw std::invalid_argument("find_ramp: no rates");
    const auto size = static_cast<long>(rates.size());
    constexpr long in_a_row = 5;  // a single fast repetition within the ramp is not a plateau
    Ramp ramp;
    ramp.plateau = median_of(rates.end() - std::max(1L, size / 4), rates.end());
    ramp.repetition = size;
    for (long first = 0; first < size; ++first) {
        const auto begin = rates.begin() + first;
        const auto end = rates.begin() + std::min(size, first + in_a_row);
        if (std::all_of(begin, end, [&](double rate) { return rate >= share * ramp.plateau; })) {
            ramp.repetition = first + 1;
            break;
        }
    }
    ramp.before = ramp.repetition == 1 ? rates.front()
                                       : median_of(rates.begin(), rates.begin() + (ramp.repetition - 1));
    return ramp;
}

}  // namespace tenken
