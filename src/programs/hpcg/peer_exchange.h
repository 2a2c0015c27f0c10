// Between the GPUs of one node by their own stores, without a library.
#pragma once

#include <memory>
#include <string>

#include "lib/cuda/timing.h"
#include "programs/hpcg/exchange.h"
#include "programs/hpcg/ranks.h"

namespace hpcg {

/// Every rank calls it; either all of them get an exchange, or none.
/// @param max_points of one message between two ranks, of any level
/// @param why_not is set if there is none: ranks on several nodes, or GPUs that cannot map each other's
/// memory (CUDA IPC)
std::unique_ptr<Exchange> make_peer_exchange(Ranks& ranks, const tenken::cuda::Stream& stream, int max_points,
                                             std::string& why_not);

}  // namespace hpcg
