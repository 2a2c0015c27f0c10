// The processes that compute one state together, each a part of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/ranks.h"

namespace overlap {

/// A single process; MPI's ranks derive from it.
class Peers : public tenken::Ranks {
  public:
    /// The level of threads that the MPI provides, "MPI_THREAD_MULTIPLE"; empty without MPI.
    virtual std::string thread_level() const { return ""; }
    /// Whether one thread may call exchange() while another sends or receives parts.
    virtual bool two_threads_may_call() const { return true; }

    /// Sends the planes at both ends of this rank's part to its neighbours in a ring, and receives theirs.
    /// @param planes first, last, and the destinations of the planes before and after; of `bytes` each
    struct Planes {
        const char* first;
        const char* last;
        char* before;
        char* after;
    };
    virtual void exchange(const Planes& planes, int bytes) {
        (void)planes;
        (void)bytes;
    }

    /// A part on its way to rank 0, by a separate communicator.
    virtual void send_part(const char* part, std::uint64_t bytes) {
        (void)part;
        (void)bytes;
    }
    virtual void receive_part(char* part, std::uint64_t bytes, int from) {
        (void)part;
        (void)bytes;
        (void)from;
    }
};

/// The ranks of MPI if an MPI launcher has started this process, otherwise this process only.
std::unique_ptr<Peers> launched_peers();

}  // namespace overlap
