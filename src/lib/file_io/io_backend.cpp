#include <algorithm>

#include "lib/file_io/memory_space.h"

namespace file_io {

std::vector<Segment> ids_first(std::vector<Segment> segments) {
    std::rotate(segments.begin(), segments.begin() + id, segments.end());
    return segments;
}

void IoBackend::write_packed(MemorySpace& space, File& file, const Packing& packing,
                             const std::vector<Segment>& segments) {
    space.pack(packing.arrays, packing.packed, packing.particles);
    write(file, ids_first(segments));
}

void IoBackend::read_packed(MemorySpace& space, File& file, const Packing& packing,
                            const std::vector<Segment>& segments) {
    read(file, segments);
    space.unpack(packing.packed, packing.arrays, packing.particles);
}

}  // namespace file_io
