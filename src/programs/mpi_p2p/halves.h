// Which rank exchanges with which across a bisection of the nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mpi_p2p {

/// One way to halve the nodes: by leaf switches ("opposite": across them, "neighbours": within), or random.
struct Halves {
    std::string name;
    std::vector<int> partner;  ///< of each rank; -1: it rests
};

/// @param nodes the node of each rank; on a single node each rank counts as one
/// @param leaves leaf switch by node; nodes without one come first, in the order of their ranks
/// @param word "opposite", "neighbours", or a number, the seed of random halves
/// @throws std::invalid_argument for another word
Halves halves_of(const std::string& word, std::vector<std::string> nodes,
                 const std::map<std::string, std::string>& leaves);

/// Lines "NODE LEAF". @throws std::runtime_error with the line that is not one
std::map<std::string, std::string> read_leaves(const std::string& file);

}  // namespace mpi_p2p
