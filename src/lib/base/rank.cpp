#include "lib/base/rank.h"

#include <cstdlib>

namespace tenken {

std::string launcher_rank() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"}) {
        const char* const value = std::getenv(name);
        if (value != nullptr) return value;
    }
    return "";
}

}  // namespace tenken
