// The schedule, the same for every exchange: bt steps, then halos of bt planes. A block of steps is
// first computed for the planes at the ends, whose halos are then transferred while the inner planes are
// computed.
#pragma once

#include <string>
#include <vector>

#include "lib/base/ranks.h"
#include "programs/stencil/exchange.h"

namespace stencil {

/// Decomposition and connection of all parts.
struct Plan {
    Grid grid = {};
    int parts = 1;               ///< of all processes
    int bt = 1;                  ///< steps between two exchanges, and planes of a halo
    int temporal_block = 1;      ///< steps of one pass
    std::string fault = "none";  ///< what a test wants to be wrong: see --inject-fault

    Slab slab(int part) const { return slab_of(grid.nz, part, parts); }
    long thinnest() const { return grid.nz / parts; }
    /// Whether slabs are thick enough for planes between the transferred ones.
    bool overlaps() const { return parts > 1 && thinnest() >= 4L * bt; }
    /// Steps of each pass of a block, the longer passes last, since a pass must not overwrite what an earlier
    /// one of the inner planes still reads.
    std::vector<int> passes(int steps) const;
};

/// Times of a block without overlap, in seconds.
struct Phases {
    double compute = 0;
    double pack = 0;
    double halo_node = 0;
    double halo_net = 0;
    double sync = 0;
};

class Solver {
  public:
    /// @param owners the process of each part; @param exchange null if there is only one part
    Solver(const Plan& plan, const std::vector<int>& owners, Parts& parts, Exchange* exchange,
           tenken::Ranks& ranks);

    /// Writes the grid and fetches the first halos.
    void begin();
    /// At most bt steps, and starts the transfer of the halos for the next ones.
    void block(int steps);
    /// As many blocks as required.
    void advance(long steps);
    /// The same block with a wait after each phase.
    Phases block_apart(int steps);
    /// Waits for everything, in all processes.
    void wait();
    /// Ends the exchange, in all processes, before the parts are freed.
    void end();
    /// The array with the newest planes.
    int current() const { return current_; }

  private:
    void join(const std::vector<int>& owners);
    void compute(int steps, bool boundary);
    void exchange(const Links& links);
    void wait_here();
    std::vector<std::vector<unsigned char>> stale_planes();

    const Plan& plan_;
    Parts& parts_;
    Exchange* exchange_;
    tenken::Ranks& ranks_;
    Links links_;
    int current_ = 0;
    int exchanges_ = 0;
};

}  // namespace stencil
