#include "lib/lu/distribution.h"

#include <algorithm>

namespace lu {

std::vector<Step> plan_steps(std::int64_t n, std::int64_t nb, std::int64_t taper, std::int64_t minimum) {
    std::vector<Step> steps;
    for (std::int64_t begin = 0; begin < n;) {
        std::int64_t width = nb;
        while (taper > 0 && width % 2 == 0 && width / 2 >= minimum && n - begin < taper * width) width /= 2;
        const std::int64_t to_border = nb - begin % nb;
        width = std::min({width, to_border, n - begin});
        steps.push_back({begin, width});
        begin += width;
    }
    return steps;
}

}  // namespace lu
