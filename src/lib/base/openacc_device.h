// Where OpenACC's runtime executes the loops. For sources that are compiled with OpenACC.
#pragma once

#include <openacc.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "lib/base/document.h"

namespace tenken {

inline bool openacc_is_on_host() {
    const acc_device_t type = acc_get_device_type();
    return type == acc_device_host || acc_get_num_devices(type) == 0;
}

/// Free memory of the runtime's device; unlimited where the runtime does not report it (OpenACC before 2.6).
inline std::uint64_t openacc_free_bytes() {
    std::size_t free = 0;
#if _OPENACC >= 201711
    const acc_device_t type = acc_get_device_type();
    free = acc_get_property(acc_get_device_num(type), type, acc_property_free_memory);
#endif
    return free > 0 ? free : std::numeric_limits<std::uint64_t>::max();
}

/// States in the document where the loops were executed, and that no GPU was monitored: the runtime chooses
/// it, and OpenACC names neither its PCI address nor its UUID.
inline void describe_openacc(Document& document) {
    document.path("openacc_device", openacc_is_on_host() ? "host" : "device");
    if (!openacc_is_on_host()) document.health.reason = "OpenACC does not identify its GPU";
}

}  // namespace tenken
