#include <atomic>
#include <stdexcept>
#include <vector>

#include "lib/base/parallel_for_devices.h"
#include "unit.h"

TEST(members_work_one_by_one_in_order) {
    std::vector<int> order;
    tenken::parallel_for_devices(3, false, [&](tenken::DeviceWorker& worker) {
        worker.synchronize();
        order.push_back(worker.index());
    });
    CHECK(order == (std::vector<int>{0, 1, 2}));
}

TEST(members_at_once_go_on_together) {
    std::atomic<int> arrived{0};
    std::atomic<int> too_early{0};
    tenken::parallel_for_devices(4, true, [&](tenken::DeviceWorker& worker) {
        for (int round = 1; round <= 20; ++round) {
            ++arrived;
            worker.synchronize();
            if (arrived < 4 * round) ++too_early;
            worker.synchronize();
        }
    });
    CHECK(arrived.load() == 80);
    CHECK(too_early.load() == 0);
}

TEST(a_member_that_fails_does_not_leave_the_others_waiting) {
    std::string what;
    try {
        tenken::parallel_for_devices(3, true, [&](tenken::DeviceWorker& worker) {
            if (worker.index() == 1) throw std::runtime_error("GPU 1 is gone");
            worker.synchronize();
            worker.synchronize();
        });
    } catch (const std::runtime_error& error) {
        what = error.what();
    }
    CHECK_EQUAL(what, "GPU 1 is gone");
}
