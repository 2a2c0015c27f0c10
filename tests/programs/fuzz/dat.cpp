// tenken_fuzz_dat COUNT SEED: reads COUNT broken HPL.dat files. For any content, the reader must return a
// problem within its limits, or throw DatError, within a second. The same seed gives the same files; a
// failure prints it.
#include "programs/hpl/dat.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "broken.h"

namespace {

const std::vector<std::string> good = {
    "HPLinpack benchmark input file\nsomebody\nHPL.out output file\n6 device out\n1 # of N\n1000 Ns\n1 # of "
    "NBs\n"
    "192 NBs\n0 PMAP\n1 # of grids\n1 Ps\n1 Qs\n16.0 threshold\n1 # of panel fact\n2 PFACTs\n",
    "a\nb\nx.out\n8\n3\n100 200 300\n2\n32 64\n1\n2\n1 2\n2 1\n-16.5\n"};

const std::vector<std::string> words = {"nan",
                                        "inf",
                                        "-1",
                                        "0",
                                        "21",
                                        "2147483648",
                                        "99999999999999999999",
                                        "1e999",
                                        "0x10",
                                        "+",
                                        "-",
                                        ".",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        " ",
                                        std::string(1, '\0'),
                                        std::string(3000, '1'),
                                        std::string(3000, ' '),
                                        "\x1b[2J",
                                        "\xff"};

}  // namespace

int main(int argc, char** argv) {
    const long count = argc > 1 ? std::atol(argv[1]) : 20000;
    const std::uint64_t seed = argc > 2 ? static_cast<std::uint64_t>(std::atol(argv[2])) : 1;
    long read = 0;
    double slowest = 0;
    for (long i = 0; i < count; ++i) {
        fuzz::Dice dice(sparse::mixed_bits(seed, static_cast<std::uint64_t>(i), 2));
        const std::string text = fuzz::broken(dice, good, words);
        const auto begin = std::chrono::steady_clock::now();
        std::string wrong;
        try {
            const hpl::Dat dat = hpl::parse_dat(text, "fuzz");
            if (dat.n.empty() || dat.nb.empty() || dat.p.empty() || dat.p.size() != dat.q.size())
                wrong = "a problem without a size or a grid";
            for (const std::int64_t n : dat.n)
                if (n < 0) wrong = "a negative N";
            for (const std::int64_t nb : dat.nb)
                if (nb < 1) wrong = "NB below 1";
            ++read;
        } catch (const hpl::DatError& error) {
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
    std::printf("%ld files, %ld of them good, slowest %.3f ms\n", count, read, slowest * 1e3);
    return 0;
}
