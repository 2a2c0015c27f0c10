// Halves of the nodes of a run, and the file that names their leaf switches.
#include <cstdio>
#include <fstream>
#include <set>
#include <stdexcept>

#include "programs/mpi_p2p/halves.h"
#include "unit.h"

using mpi_p2p::halves_of;

namespace {

typedef std::vector<int> Partners;

// six ranks on four nodes, of which two have two
const std::vector<std::string> nodes = {"n3", "n1", "n1", "n2", "n4", "n4"};
const std::map<std::string, std::string> leaves = {{"n1", "a"}, {"n4", "a"}, {"n2", "b"}, {"n3", "b"}};

}  // namespace

TEST(opposite_halves_are_on_two_switches_and_neighbours_on_one) {
    // n1 with n3, n4 with n2
    CHECK((halves_of("opposite", nodes, leaves).partner == Partners{1, 0, -1, 4, 3, -1}));
    // n1 with n4, n3 with n2
    CHECK((halves_of("neighbours", nodes, leaves).partner == Partners{3, 4, 5, 0, 1, 2}));
    // on one switch, in the order of their ranks: n3, n1, n2, n4
    CHECK((halves_of("opposite", nodes, {}).partner == Partners{3, 4, 5, 0, 1, 2}));
    CHECK((halves_of("neighbours", nodes, {}).partner == Partners{1, 0, -1, 4, 3, -1}));
    // the one without a switch comes first: n4, n1, n3, n2
    const std::map<std::string, std::string> three = {{"n1", "a"}, {"n2", "b"}, {"n3", "b"}};
    CHECK((halves_of("opposite", nodes, three).partner == Partners{4, 3, -1, 1, 0, -1}));
}

TEST(on_a_single_node_each_rank_counts_as_one) {
    const std::vector<std::string> one(5, "n1");
    CHECK((halves_of("opposite", one, {}).partner == Partners{2, 3, 0, 1, -1}));
    CHECK((halves_of("neighbours", one, {}).partner == Partners{1, 0, 3, 2, -1}));
}

TEST(random_halves_pair_each_node_once_and_differ_by_seed) {
    std::vector<std::string> many;
    for (int i = 0; i < 32; ++i) many.push_back("n" + std::to_string(i));
    std::set<Partners> found;
    for (const char* const seed : {"1", "2", "7"}) {
        const mpi_p2p::Halves halves = halves_of(seed, many, {});
        CHECK_EQUAL(halves.name, std::string("random") + seed);
        for (int rank = 0; rank < 32; ++rank) {
            const int partner = halves.partner[static_cast<std::size_t>(rank)];
            CHECK(partner >= 0 && partner != rank &&
                  halves.partner[static_cast<std::size_t>(partner)] == rank);
        }
        found.insert(halves.partner);
    }
    CHECK(found.size() == 3);
    for (const char* const word : {"-3", "3x", "across"})
        CHECK_EQUAL(unit::thrown<std::invalid_argument>([&] { halves_of(word, many, {}); }), word);
}

TEST(a_line_that_is_not_a_node_and_its_switch_is_named) {
    const std::string file = "halves_leaves.txt";
    std::ofstream(file) << "n1 a\n\nn2\tb\n";
    CHECK((mpi_p2p::read_leaves(file) == std::map<std::string, std::string>{{"n1", "a"}, {"n2", "b"}}));
    for (const char* const line : {"n2", "n2 b c"}) {
        std::ofstream(file) << "n1 a\n" << line << "\n";
        CHECK_EQUAL(unit::thrown<std::runtime_error>([&] { mpi_p2p::read_leaves(file); }),
                    file + ":2: allowed: the name of a node and of its leaf switch");
    }
    std::remove(file.c_str());
    CHECK_EQUAL(unit::thrown<std::runtime_error>([&] { mpi_p2p::read_leaves(file); }),
                file + ": cannot be read");
}
