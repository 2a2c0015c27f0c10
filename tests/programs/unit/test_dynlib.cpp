#include <cstdlib>

#include "lib/base/dynlib.h"
#include "unit.h"

using tenken::DynamicLibrary;

TEST(a_library_gives_its_functions_by_the_first_name_that_it_has) {
    std::string why_not;
    DynamicLibrary library = DynamicLibrary::open("libm.so.6", why_not);
    CHECK(library && why_not.empty());
    CHECK_EQUAL(library.name(), "libm.so.6");
    double (*square_root)(double) = nullptr;
    CHECK(library.load(square_root, {"no_such_function", "sqrt"}) && square_root(9) == 3);
    CHECK(!library.load(square_root, "no_such_function") && square_root == nullptr);
    library.close();
    CHECK(!library && library.symbol("sqrt") == nullptr);
}

TEST(a_library_that_is_missing_says_why) {
    std::string why_not;
    CHECK(!DynamicLibrary::open("/nowhere/libone.so", why_not));
    CHECK(why_not.find("/nowhere/libone.so") == 0);
    CHECK(!DynamicLibrary::open_first({"/nowhere/libtwo.so", "/nowhere/libthree.so"}, why_not));
    CHECK(why_not.find("/nowhere/libtwo.so") == 0);
    CHECK_EQUAL(DynamicLibrary::open_first({"/nowhere/libtwo.so", "libm.so.6"}, why_not).name(), "libm.so.6");
}

TEST(the_environment_names_the_one_library_to_load) {
    setenv("TENKEN_TEST_LIBRARY", "/site/lib.so", 1);
    CHECK(DynamicLibrary::names("TENKEN_TEST_LIBRARY", {"a", "b"}) ==
          std::vector<std::string>{"/site/lib.so"});
    setenv("TENKEN_TEST_LIBRARY", "", 1);
    CHECK(DynamicLibrary::names("TENKEN_TEST_LIBRARY", {"a", "b"}).size() == 2);
    unsetenv("TENKEN_TEST_LIBRARY");
}
