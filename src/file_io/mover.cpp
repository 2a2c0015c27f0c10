#include <algorithm>

#include "file_io/side.h"

namespace file_io {

std::vector<Segment> ids_first(std::vector<Segment> segments) {
    std::rotate(segments.begin(), segments.begin() + id, segments.end());
    return segments;
}

void Mover::write_packed(Side& side, File& file, const Packing& packing,
                         const std::vector<Segment>& segments) {
    side.pack(packing.arrays, packing.packed, packing.particles);
    write(file, ids_first(segments));
}

void Mover::read_packed(Side& side, File& file, const Packing& packing,
                        const std::vector<Segment>& segments) {
    read(file, segments);
    side.unpack(packing.packed, packing.arrays, packing.particles);
}

}  // namespace file_io
