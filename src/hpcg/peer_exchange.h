// Between the GPUs of one node by their own stores: no library takes part in a message.
#pragma once

#include <memory>
#include <string>

#include "common/cuda/timing.h"
#include "hpcg/exchange.h"
#include "hpcg/ranks.h"

namespace hpcg {

/// Every rank calls it; either all of them get an exchange, or none.
/// @param most_points of one message between two ranks, of any level
/// @param why_not is set where there is none: ranks on several nodes, or GPUs that cannot map each other's
/// memory (CUDA IPC)
std::unique_ptr<Exchange> make_peer_exchange(Ranks& ranks, const tenken::cuda::Stream& stream,
                                             int most_points, std::string& why_not);

}  // namespace hpcg
