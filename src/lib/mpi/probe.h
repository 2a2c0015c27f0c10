// Tests whether the MPI accepts device pointers, before one is passed to it: an MPI built without CUDA
// treats such a pointer as host memory and crashes.
#pragma once

#include <string>

namespace mpi_p2p {

/// The outcome of a child process that tried it.
struct Probe {
    bool works = false;
    std::string why_not;
};

/// Runs this program again as a separate process, which sends buffers of that kind to itself.
/// @param what "messages" or "collectives"
/// @param kind "device" or "managed", or "host" for tests
Probe probe(const std::string& what, const std::string& kind);

/// The answer of MPIX_Query_cuda_support, if the MPI has it: "yes", "no", "not reported". An MPI without its
/// own CUDA support answers no even if the underlying UCX accepts device pointers.
std::string cuda_support();

/// Whether this process is such a child, by its command line; then it performs the test and its exit
/// code is written to `code`.
bool is_probe(int argc, char** argv, int& code);

}  // namespace mpi_p2p
