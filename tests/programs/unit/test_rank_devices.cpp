#include <string>
#include <vector>

#include "lib/base/rank_devices.h"
#include "unit.h"

namespace {

/// The ranks of a run as its first rank sees them: what all of them tell, in the order in which they are
/// asked.
struct ToldRanks {
    std::vector<std::string> of_nodes;
    std::vector<std::vector<std::string>> answers;
    std::size_t asked = 0;

    std::vector<std::string> gather(const std::string&) { return answers.at(asked++); }
    std::string broadcast(const std::string& bytes) const { return bytes; }
    std::vector<std::string> nodes() const { return of_nodes; }
    int rank() const { return 0; }
    bool speaks() const { return true; }
};

struct Told {
    std::vector<std::string> nodes;   ///< of each rank
    std::vector<std::string> gpus;    ///< CUDA index and address of each rank's GPU
    std::vector<std::string> health;  ///< empty: it could not be read
    std::string devices;              ///< the ranks whose GPUs are in the document
    std::string elsewhere;            ///< ... whose health is that of another node's GPU
    std::string why_not;
};

std::string ranks_in(const std::vector<tenken::Json>& list) {
    std::string text;
    for (const tenken::Json& one : list) text += one.dump();
    return text;
}

}  // namespace

TEST(each_gpu_of_the_first_node_and_of_the_others_is_told_once) {
    // drivers may hide UUIDs, and nodes have their GPUs at the same addresses
    const std::vector<Told> all = {
        {{"a", "a"}, {"0 07", "1 0a"}, {"0", "1"}, "01", "", ""},
        {{"a", "b"}, {"0 07", "0 07"}, {"0", "1"}, "0", "1", ""},
        {{"a", "a", "b", "b"}, {"0 07", "0 0a", "0 07", "0 0a"}, {"0", "1", "2", "3"}, "01", "23", ""},
        {{"a", "b", "a", "b"}, {"0 07", "0 07", "0 07", "1 0a"}, {"0", "1", "2", "3"}, "0", "13", ""},
        {{"a", "a", "b"}, {"0 07", "1 0a", "0 07"}, {"0", "", ""}, "01", "", "no NVML"},
    };
    for (const Told& told : all) {
        std::vector<std::string> ranks;
        for (std::size_t i = 0; i < told.nodes.size(); ++i) ranks.push_back(std::to_string(i));
        ToldRanks team{told.nodes, {told.gpus, ranks, told.health, {"", "no NVML", ""}}};
        team.answers.back().resize(ranks.size());
        char* none = nullptr;
        tenken::Document document("x", 0, &none);
        tenken::report_rank_devices(document, team, {}, {}, "");
        CHECK_EQUAL(ranks_in(document.more_devices), told.devices);
        CHECK_EQUAL(ranks_in(document.health.elsewhere), told.elsewhere);
        CHECK_EQUAL(document.health.reason, told.why_not);
        CHECK(document.health.available == told.why_not.empty());
    }
}

TEST(ranks_share_a_gpu_of_their_own_node) {
    const std::vector<tenken::RankDevice> all = {{"a", "07", 0}, {"b", "07", 0}, {"a", "07", 0},
                                                 {"a", "0a", 0}, {"b", "0a", 1}, {"c", "0c", 0}};
    std::string sharing;
    std::string numbers;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        sharing += std::to_string(tenken::sharing_of(all, rank));
        numbers += std::to_string(tenken::number_on_node(all, rank));
    }
    CHECK_EQUAL(sharing, "212111");
    CHECK_EQUAL(numbers, "000110");
}
