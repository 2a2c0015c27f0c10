#include <stdexcept>

#include "lib/base/gpu_selection.h"
#include "unit.h"

namespace {

std::string error_of(const std::string& list, int count) {
    return unit::thrown<tenken::ArgumentError>([&] { tenken::parse_gpu_list(list, count); });
}

std::string error_of_variable(const std::string& value, int shown) {
    return unit::thrown<std::runtime_error>([&] { tenken::check_visible_devices(value, shown); });
}

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST(gpu_lists_are_read) {
    CHECK(tenken::parse_gpu_list("all", 3) == (std::vector<int>{0, 1, 2}));
    CHECK(tenken::parse_gpu_list("2,0", 3) == (std::vector<int>{2, 0}));
    CHECK(tenken::parse_gpu_list(" 1 ", 2) == (std::vector<int>{1}));
}

TEST(wrong_gpu_lists_are_refused_with_what_is_there) {
    for (const char* list : {"", "2", "0,0", "-1", "0,", "a", "0;1", "1.5", "99999999999999999999"}) {
        CHECK(holds(error_of(list, 2), "from 0 to 1 (2 GPUs are visible)"));
    }
    CHECK(holds(error_of("1", 1), "(1 GPU is visible)"));
}

TEST(cuda_visible_devices_is_checked) {
    tenken::check_visible_devices({}, 0);
    CHECK_EQUAL(error_of_variable("0,1", 2), "");
    CHECK_EQUAL(error_of_variable("GPU-5e48bb40,MIG-1", 2), "");
    CHECK(holds(error_of_variable("", 0), "it is empty and hides every GPU"));
    CHECK(holds(error_of_variable("  ", 0), "it is empty"));
    CHECK(holds(error_of_variable("-1", 0), "hides every GPU"));
    CHECK(holds(error_of_variable("0,foo", 1), "'foo' is neither an index nor an identifier"));
    CHECK(holds(error_of_variable("0,,1", 1), "'' is neither"));
    CHECK(holds(error_of_variable("0,0", 0), "'0' is listed twice"));
    CHECK(holds(error_of_variable("0,7", 1), "CUDA_VISIBLE_DEVICES='0,7': '7' is not a GPU of this machine"));
}
