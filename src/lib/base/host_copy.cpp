#include "lib/base/host_copy.h"

#include "lib/base/host_array.h"
#include "lib/base/streaming_store.h"

namespace tenken {

void copy_on_host(double* to, const double* from, std::size_t elements) {
    in_shares(elements, [=](std::size_t begin, std::size_t end) {
        std::size_t i = begin;  // a share begins at a page, so packs are aligned
        for (; i + pack_elements <= end; i += pack_elements) {
            store_streaming(to + i, *reinterpret_cast<const Pack*>(from + i));
        }
        for (; i < end; ++i) to[i] = from[i];
        finish_streaming();
    });
}

}  // namespace tenken
