#include <initializer_list>

#include "lib/base/arguments.h"
#include "unit.h"

namespace {

struct Parsed {
    std::int64_t count = 5;
    std::uint64_t size = 0;
    double seconds = 1;
    std::string word = "one";
    bool loud = false;
    std::string error;
    std::string parameters;
    std::string help;

    explicit Parsed(std::initializer_list<const char*> words) {
        tenken::Arguments arguments("prog", "A program.");
        arguments.integer("count", count, 1, 5000, "how many");
        arguments.bytes("array-bytes", size, 8, std::uint64_t{1} << 40, "how large", "automatic");
        arguments.real("warmup-seconds", seconds, "s", 0, 10, "how long");
        arguments.choice("word", word, {"one", "two"}, "which");
        arguments.flag("loud", loud, "say more");
        arguments.former_name("number", "count");
        arguments.former_name("noisy", "loud");
        arguments.former_option("which", "word", {{"first", "one"}, {"second", "two"}});
        arguments.former_option("last", "word", {{"", "two"}});
        help = arguments.help();
        std::vector<std::string> texts = {"prog"};
        texts.insert(texts.end(), words.begin(), words.end());
        std::vector<char*> argv;
        for (std::string& text : texts) argv.push_back(&text[0]);
        argv.push_back(nullptr);
        error = unit::thrown<tenken::ArgumentError>(
            [&] { arguments.parse(static_cast<int>(texts.size()), argv.data()); });
        parameters = arguments.parameters().dump();
    }
};

}  // namespace

TEST(good_arguments_are_read) {
    const Parsed parsed(
        {"--count", "2k", "--array-bytes=3Gi", "--warmup-seconds", "0.5", "--word", "two", "--loud"});
    CHECK_EQUAL(parsed.error, "");
    CHECK(parsed.count == 2000);
    CHECK(parsed.size == std::uint64_t{3} << 30);
    CHECK(parsed.seconds == 0.5);
    CHECK_EQUAL(parsed.word, "two");
    CHECK(parsed.loud);
    CHECK_EQUAL(Parsed({"--count", "7"}).parameters,
                "{\"count\":7,\"array_bytes\":0,\"warmup_seconds\":1,\"word\":\"one\",\"loud\":false}");
}

TEST(sizes_take_both_kinds_of_suffix) {
    CHECK(Parsed({"--array-bytes", "64"}).size == 64);
    CHECK(Parsed({"--array-bytes", "64k"}).size == 64000);
    CHECK(Parsed({"--array-bytes", "64Ki"}).size == 65536);
    CHECK(Parsed({"--array-bytes", "2MiB"}).size == 2097152);
    CHECK(Parsed({"--array-bytes", "2MB"}).size == 2000000);
}

TEST(wrong_arguments_are_named_with_what_is_allowed) {
    CHECK_EQUAL(Parsed({"--count", "0"}).error, "--count '0' is invalid; allowed: 1 to 5000");
    CHECK_EQUAL(Parsed({"--count", "-3"}).error, "--count '-3' is invalid; allowed: 1 to 5000");
    CHECK_EQUAL(Parsed({"--count", "99999999999999999999"}).error,
                "--count '99999999999999999999' is invalid; allowed: a number below 2^64, 1 to 5000");
    CHECK_EQUAL(Parsed({"--count", "3x"}).error,
                "--count '3x' is invalid; allowed: a whole number with no suffix or k, M, G, 1 to 5000");
    CHECK_EQUAL(Parsed({"--word", "three"}).error, "--word 'three' is invalid; allowed: one, two");
    CHECK_EQUAL(Parsed({"--warmup-seconds", "nan"}).error,
                "--warmup-seconds 'nan' is invalid; allowed: 0 to 10 s");
    CHECK_EQUAL(Parsed({"--warmup-seconds", ""}).error,
                "--warmup-seconds '' is invalid; allowed: a number, 0 to 10 s");
    for (const char* bad : {"", "x", "-1", "1.5", "1K", "1ki2", "1Kii", "0", "4", "2Ti", "99999999999Ti"}) {
        CHECK(Parsed({"--array-bytes", bad}).error.find("--array-bytes '") == 0);
    }
    CHECK_EQUAL(Parsed({"--nonsense"}).error, "--nonsense: unknown or ambiguous option; see --help");
    CHECK_EQUAL(Parsed({"-x"}).error, "-x: unknown or ambiguous option; see --help");
    CHECK_EQUAL(Parsed({"--count"}).error, "--count: needs a value");
    CHECK_EQUAL(Parsed({"stray"}).error, "stray: unexpected argument; see --help");
}

TEST(bytes_are_written_for_people) {
    CHECK_EQUAL(tenken::format_bytes(1000), "1000 B");
    CHECK_EQUAL(tenken::format_bytes(std::uint64_t{128} << 20), "128 MiB");
    CHECK_EQUAL(tenken::format_bytes((std::uint64_t{5} << 30) / 2), "2.50 GiB");
}

TEST(former_names_are_accepted_and_stand_under_the_name_of_today) {
    const Parsed parsed({"--number", "7", "--which", "second", "--noisy"});
    CHECK_EQUAL(parsed.error, "");
    CHECK(parsed.count == 7 && parsed.word == "two" && parsed.loud);
    CHECK(parsed.parameters.find("\"count\":7") != std::string::npos);
    for (const char* former : {"number", "which", "noisy", "last"}) {
        CHECK(parsed.parameters.find(former) == std::string::npos);
        CHECK(parsed.help.find("--" + std::string(former)) == std::string::npos);
    }
    CHECK_EQUAL(Parsed({"--last"}).word, "two");
}

TEST(a_wrong_value_of_a_former_name_says_both_names) {
    CHECK_EQUAL(Parsed({"--number", "0"}).error, "--number (now --count) '0' is invalid; allowed: 1 to 5000");
    CHECK_EQUAL(Parsed({"--which", "third"}).error,
                "--which 'third' is invalid; allowed: first, second (now --word)");
    CHECK_EQUAL(Parsed({"--number", "7", "--count", "0"}).error,
                "--count '0' is invalid; allowed: 1 to 5000");
    CHECK_EQUAL(Parsed({"--last=two"}).error, "--last=two: unknown or ambiguous option; see --help");
}

TEST(an_abbreviation_that_fits_several_options_is_refused) {
    CHECK_EQUAL(Parsed({"--wo", "two"}).word, "two");
    CHECK_EQUAL(Parsed({"--w", "2"}).error, "--w: unknown or ambiguous option; see --help");
    CHECK_EQUAL(Parsed({"--lo"}).error, "");
}
