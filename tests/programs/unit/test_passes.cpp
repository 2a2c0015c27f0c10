// The passes over the arrays with which a step takes a given time.
#include <cmath>

#include "lib/base/passes.h"
#include "unit.h"

TEST(a_step_has_as_many_passes_as_fill_its_time) {
    for (const int several : {5, 21}) {
        // two milliseconds for the state and 0.5 for each pass
        CHECK(tenken::passes_for(0.020, several, [](int n) { return 2e-3 + 0.5e-3 * n; }) == 36);
        CHECK(tenken::passes_for(0.002, several, [](int n) { return 2e-3 + 0.5e-3 * n; }) == 1);
        // the first passes are slow: what counts is the step itself
        const auto slow_start = [](int n) { return 1e-6 * (n < 30 ? 10 * n : n); };
        CHECK(std::abs(tenken::passes_for(0.020, several, slow_start) - 20000) <= 2000);
        CHECK(tenken::passes_for(1e3, several, slow_start) == 1000000);
    }
}
