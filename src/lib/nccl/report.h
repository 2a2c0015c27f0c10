// What NCCL reports about its connections: transport and adapter of each.
#pragma once

#include <string>
#include <vector>

#include "lib/base/document.h"
#include "lib/base/ranks.h"

namespace nccl {

/// Transports and adapters of connections, each once, in alphabetical order: "NET/IB/GDRDMA", "NET/Socket",
/// "P2P/CUMEM", "SHM"; "mlx5_0:1", "eth0".
struct Connections {
    std::vector<std::string> transports;
    std::vector<std::string> adapters;
};

/// Reads lines of NCCL_DEBUG=INFO: "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA", and the list of
/// adapters by number, "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB".
Connections connections(const std::string& log);

/// Has NCCL write its report to a file of this process. To be constructed before NCCL's first call. If
/// NCCL_DEBUG or NCCL_DEBUG_FILE is already set, both remain as they are, and nothing is known.
class Report {
  public:
    Report();
    ~Report();
    Report(const Report&) = delete;
    Report& operator=(const Report&) = delete;
    /// Writes `transports` and `adapters` of all ranks into the document's path; collective.
    void write(tenken::Document& document, tenken::Ranks& ranks) const;

  private:
    std::string file_;
};

}  // namespace nccl
