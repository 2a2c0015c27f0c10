#include <atomic>
#include <stdexcept>
#include <vector>

#include "common/crew.h"
#include "unit.h"

TEST(members_work_one_by_one_in_order) {
    std::vector<int> order;
    tenken::run_crew(3, false, [&](tenken::Member& member) {
        member.together();
        order.push_back(member.index());
    });
    CHECK(order == (std::vector<int>{0, 1, 2}));
}

TEST(members_at_once_go_on_together) {
    std::atomic<int> arrived{0};
    std::atomic<int> too_early{0};
    tenken::run_crew(4, true, [&](tenken::Member& member) {
        for (int round = 1; round <= 20; ++round) {
            ++arrived;
            member.together();
            if (arrived < 4 * round) ++too_early;
            member.together();
        }
    });
    CHECK(arrived.load() == 80);
    CHECK(too_early.load() == 0);
}

TEST(a_member_that_fails_does_not_leave_the_others_waiting) {
    std::string what;
    try {
        tenken::run_crew(3, true, [&](tenken::Member& member) {
            if (member.index() == 1) throw std::runtime_error("GPU 1 is gone");
            member.together();
            member.together();
        });
    } catch (const std::runtime_error& error) {
        what = error.what();
    }
    CHECK_EQUAL(what, "GPU 1 is gone");
}
