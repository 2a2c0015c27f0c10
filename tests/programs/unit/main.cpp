#include "unit.h"

int main() {
    for (const unit::Test& test : unit::tests()) {
        const int before = unit::failures();
        test.body();
        std::printf("%s %s\n", unit::failures() == before ? "ok    " : "FAILED", test.name);
    }
    std::printf("%zu tests, %d failures\n", unit::tests().size(), unit::failures());
    return unit::failures() == 0 ? 0 : 1;
}
