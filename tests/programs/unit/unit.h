// The minimum that a unit test needs: named tests that register themselves, and checks that print what
// failed.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace unit {

struct Test {
    const char* name;
    void (*body)();
};
inline std::vector<Test>& tests() {
    static std::vector<Test> list;
    return list;
}
inline int& failures() {
    static int count = 0;
    return count;
}
struct Register {
    Register(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

inline void check(bool passed, const char* text, const char* file, int line) {
    if (passed) return;
    ++failures();
    std::printf("%s:%d: not true: %s\n", file, line, text);
}

inline void check_equal(const std::string& found, const std::string& wanted, const char* file, int line) {
    if (found == wanted) return;
    ++failures();
    std::printf("%s:%d: found '%s', wanted '%s'\n", file, line, found.c_str(), wanted.c_str());
}

/// The text of the exception that call() throws, "" when it throws none.
template <typename Exception>
std::string thrown(const std::function<void()>& call) {
    try {
        call();
    } catch (const Exception& error) {
        return error.what();
    }
    return "";
}

}  // namespace unit

#define TEST(name)                                                   \
    static void test_##name();                                       \
    static const unit::Register register_##name(#name, test_##name); \
    static void test_##name()
#define CHECK(condition) unit::check((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQUAL(found, wanted) unit::check_equal((found), (wanted), __FILE__, __LINE__)
