#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "lib/base/request.h"
#include "unit.h"

namespace {

/// The outcome of a request with this text: "token T", or the refusal.
std::string read(const std::string& text) {
    const std::string path = "request-" + std::to_string(getpid()) + ".json";
    std::ofstream(path) << text;
    std::string token;
    const std::string error =
        unit::thrown<std::runtime_error>([&] { token = tenken::token_of_request(path); });
    std::remove(path.c_str());
    return error.empty() ? "token " + token : error;
}

std::string around(const std::string& more) {
    return R"({"schema": "tenken-request/1", "token": "a.b-1")" + more + "}";
}

}  // namespace

TEST(a_request_gives_its_token_whatever_else_it_holds) {
    CHECK_EQUAL(read(around("")), "token a.b-1");
    CHECK_EQUAL(
        read("\n " + around(R"(, "n": [1, -0.5e+3, {"token": "no", "x": []}, true, null], "o": {})") + "\n"),
        "token a.b-1");
    CHECK_EQUAL(read(R"({"token":"\u0041\/\\","schema":"tenken-request\/1"})"), "token A/\\");
}

TEST(a_request_without_a_good_token_is_refused) {
    const std::string expected = "needs a \"token\" of 1 to 256 printable ASCII characters, no blanks";
    const std::string long_token(257, 'x');
    for (const std::string& value :
         {std::string("7"), std::string("null"), std::string("\"\""), std::string("\"a b\""),
          std::string("\"a\\n\""), std::string("\"\\u00e9\""), "\"" + long_token + "\""}) {
        CHECK_EQUAL(read(R"({"schema": "tenken-request/1", "token": )" + value + "}"), expected);
    }
    CHECK_EQUAL(read(R"({"schema": "tenken-request/1"})"), expected);
    CHECK_EQUAL(read(R"({"schema": "tenken-request/1", "token": ")" + std::string(256, 'x') + "\"}"),
                "token " + std::string(256, 'x'));
}

TEST(what_is_no_request_is_refused) {
    CHECK_EQUAL(read(R"({"token": "x"})"), "needs \"schema\": \"tenken-request/1\"");
    CHECK_EQUAL(read(R"({"schema": "tenken-result/1", "token": "x"})"),
                "needs \"schema\": \"tenken-request/1\", has \"tenken-result/1\"");
    CHECK_EQUAL(read(around(R"(, "token": "other")")), "has the key \"token\" twice");
    CHECK_EQUAL(read(""), "is not JSON at byte 1");
    for (const char* rest : {", 1", ", \"a\"", ", \"a\": 01", ", \"a\": tru", ", \"a\": [1,]",
                             ", \"a\": \"\n\"", ", \"a\": \"\\x\"", ", \"a\": 1.", "} {", ","}) {
        CHECK(read(around(rest)).find("is not JSON at byte ") == 0);
    }
    CHECK_EQUAL(read(around(", \"a\": " + std::string(65, '[') + std::string(65, ']'))),
                "is nested deeper than 64");
    CHECK_EQUAL(read(around(", \"a\": " + std::string(64, '[') + std::string(64, ']'))), "token a.b-1");
    CHECK_EQUAL(read(around("") + std::string(16 << 20, ' ')), "has more than 16 MiB");
}

TEST(only_an_ordinary_file_can_be_a_request) {
    const auto refusal = [](const std::string& path) {
        return unit::thrown<std::runtime_error>([&] { tenken::token_of_request(path); });
    };
    CHECK_EQUAL(refusal("/nowhere/request.json"), "cannot read: No such file or directory");
    CHECK_EQUAL(refusal("/dev/null"), "needs the name of an ordinary file");
    CHECK_EQUAL(refusal("."), "needs the name of an ordinary file");
    const std::string pipe = "request-" + std::to_string(getpid()) + ".fifo";
    CHECK(mkfifo(pipe.c_str(), 0600) == 0);
    CHECK_EQUAL(refusal(pipe), "needs the name of an ordinary file");
    std::remove(pipe.c_str());
}
