#include "stream/backend.h"

#include "common/clock.h"

namespace stream {

Cycle HostTimedBackend::cycle(double scalar) {
    Cycle result;
    for (std::size_t k = 0; k < kernel_count; ++k) {
        const double begin = tenken::now_seconds();
        result.dot = run(static_cast<Kernel>(k), scalar);  // the last kernel is the dot product
        result.seconds[k] = tenken::now_seconds() - begin;
    }
    return result;
}

std::vector<BackendEntry> backends() {
    std::vector<BackendEntry> list = {{"host", make_host_backend}};
#ifdef TENKEN_HAVE_OPENACC
    list.push_back({"openacc", make_openacc_backend});
#endif
    return list;
}

}  // namespace stream
