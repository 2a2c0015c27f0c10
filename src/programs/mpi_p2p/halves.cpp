#include "programs/mpi_p2p/halves.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>

namespace mpi_p2p {

Halves halves_of(const std::string& word, std::vector<std::string> nodes,
                 const std::map<std::string, std::string>& leaves) {
    if (std::set<std::string>(nodes.begin(), nodes.end()).size() == 1) {
        for (std::size_t rank = 0; rank < nodes.size(); ++rank) nodes[rank] += "/" + std::to_string(rank);
    }
    std::map<std::string, std::vector<int>> ranks;
    std::vector<std::string> order;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
        if (ranks[nodes[rank]].empty()) order.push_back(nodes[rank]);
        ranks[nodes[rank]].push_back(static_cast<int>(rank));
    }
    const auto leaf = [&](const std::string& node) {
        const auto found = leaves.find(node);
        return found == leaves.end() ? std::string() : found->second;
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](const std::string& a, const std::string& b) { return leaf(a) < leaf(b); });
    Halves halves;
    halves.name = word;
    const std::size_t half = order.size() / 2;
    if (word == "neighbours") {
        std::vector<std::string> turned;
        for (std::size_t i = 0; i < 2 * half; i += 2) turned.push_back(order[i]);
        for (std::size_t i = 1; i < 2 * half; i += 2) turned.push_back(order[i]);
        order = turned;
    } else if (word != "opposite") {
        std::size_t used = 0;
        unsigned long seed = 0;
        try {
            seed = std::stoul(word, &used);
        } catch (const std::exception&) {
            used = 0;
        }
        if (used != word.size() || word[0] == '-') throw std::invalid_argument(word);
        halves.name = "random" + word;
        std::mt19937_64 random(seed);
        // the same on every system, which std::shuffle is not
        for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    }
    halves.partner.assign(nodes.size(), -1);
    for (std::size_t i = 0; i < half; ++i) {
        const std::vector<int>& left = ranks[order[i]];
        const std::vector<int>& right = ranks[order[half + i]];
        for (std::size_t k = 0; k < std::min(left.size(), right.size()); ++k) {
            halves.partner[static_cast<std::size_t>(left[k])] = right[k];
            halves.partner[static_cast<std::size_t>(right[k])] = left[k];
        }
    }
    return halves;
}

std::map<std::string, std::string> read_leaves(const std::string& file) {
    std::ifstream in(file);
    if (!in) throw std::runtime_error(file + ": cannot be read");
    std::map<std::string, std::string> leaves;
    std::string line;
    for (long number = 1; std::getline(in, line); ++number) {
        std::istringstream words(line);
        std::string node;
        std::string leaf;
        std::string more;
        if (!(words >> node)) continue;
        if (!(words >> leaf) || words >> more)
            throw std::runtime_error(file + ":" + std::to_string(number) +
                                     ": allowed: the name of a node and of its leaf switch");
        leaves[node] = leaf;
    }
    return leaves;
}

}  // namespace mpi_p2p
