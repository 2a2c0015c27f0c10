#include <string>

#include "lib/base/timed_anew.h"
#include "unit.h"

TEST(new_data_come_after_the_warm_up_and_before_every_timed_run) {
    std::string seen;
    const std::vector<double> seconds = tenken::timed_anew(0, 3, [&] { seen += 'n'; }, [&] { seen += 'r'; });
    CHECK_EQUAL(seen, "rrnrrr");
    CHECK(seconds.size() == 3);
    seen.clear();
    const double begin = tenken::now_seconds();
    tenken::timed_anew(0.02, 1, [&] { CHECK(tenken::now_seconds() - begin >= 0.02); }, [&] { seen = "run"; });
    CHECK_EQUAL(seen, "run");
}
