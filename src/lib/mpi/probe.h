// Finding out whether the MPI takes device pointers, before one is given to it: an MPI built without CUDA
// reads such a pointer as its own memory and dies of it.
#pragma once

#include <string>

namespace mpi_p2p {

/// What a child process that tried it came to.
struct Probe {
    bool works = false;
    std::string why_not;
};

/// Runs this program again as a process of its own, which sends buffers of that kind to itself.
/// @param what "messages" or "collectives"
/// @param kind "device" or "managed", or "host" for tests
Probe probe(const std::string& what, const std::string& kind);

/// What MPIX_Query_cuda_support says, where the MPI has it: "yes", "no", "not reported". An MPI without CUDA
/// of its own says no even where the UCX below it takes device pointers.
std::string cuda_support();

/// Whether this process is such a child, by its command line; then it does what it is there for and its exit
/// code is written to `code`.
bool is_probe(int argc, char** argv, int& code);

}  // namespace mpi_p2p
