// tenken_fuzz_market COUNT SEED: reads COUNT broken Matrix Market files, generated from valid ones by a few
// random changes. For any content, the reader must return a valid matrix, or throw MarketError, within a
// second and 64 MiB. The same seed gives the same files; a failure prints the file.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "broken.h"
#include "lib/sparse/matrix_market.h"
#include "lib/sparse/random.h"

namespace {

const std::vector<std::string> seeds = {
    "%%MatrixMarket matrix coordinate real general\n% a comment\n3 3 4\n1 1 1.5\n2 2 -2e-3\n3 1 1e300\n3 3 "
    ".5\n",
    "%%MatrixMarket matrix coordinate integer symmetric\r\n4 4 3\r\n1 1 -7\r\n3 2 9\r\n4 4 12\r\n",
    "%%MatrixMarket matrix coordinate pattern general\n2 5 3\n1 5\n2 1\n2 2\n",
    "%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 2\n2 1 1\n3 2 -4.25d+1\n",
    "%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6.0000000000000001\n",
    "%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n"};

const std::vector<std::string> words = {"nan",
                                        "inf",
                                        "-1",
                                        "0",
                                        "2147483647",
                                        "2147483648",
                                        "99999999999999999999",
                                        "1e999",
                                        "1e-999",
                                        "%",
                                        "%%",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        " ",
                                        std::string(1, '\0'),
                                        "0x10",
                                        "+",
                                        "-",
                                        ".",
                                        "1 1\n",
                                        "e5",
                                        "1e",
                                        "general",
                                        "symmetric",
                                        "skew-symmetric",
                                        "hermitian",
                                        "array",
                                        "complex",
                                        "pattern",
                                        std::string(1100, '1'),
                                        std::string(1100, ' '),
                                        "1 1 1\n1 1 1\n"};

}  // namespace

int main(int argc, char** argv) {
    const long count = argc > 1 ? std::atol(argv[1]) : 20000;
    const std::uint64_t seed = argc > 2 ? static_cast<std::uint64_t>(std::atol(argv[2])) : 1;
    long good = 0;
    double slowest = 0;
    for (long i = 0; i < count; ++i) {
        fuzz::Dice dice(sparse::mixed_bits(seed, static_cast<std::uint64_t>(i), 1));
        const std::string text = fuzz::broken(dice, seeds, words);
        const auto begin = std::chrono::steady_clock::now();
        std::string wrong;
        try {
            const sparse::MarketMatrix read =
                sparse::read_market([&] { return sparse::open_memory(text.data(), text.size()); }, "fuzz",
                                    std::uint64_t{64} << 20);
            sparse::check(read.matrix);
            ++good;
        } catch (const sparse::MarketError& error) {
            if (std::string(error.what()).compare(0, 5, "fuzz:") != 0) wrong = error.what();
        } catch (const std::exception& error) {
            wrong = error.what();
        }
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (seconds > slowest) slowest = seconds;
        if (seconds > 1) wrong = "took longer than a second";
        if (!wrong.empty()) {
            std::printf("file %ld of seed %lu: %s\n%s\n", i, static_cast<unsigned long>(seed), wrong.c_str(),
                        text.c_str());
            return 1;
        }
    }
    std::printf("%ld files, %ld of them good, slowest %.3f ms\n", count, good, slowest * 1e3);
    return 0;
}
