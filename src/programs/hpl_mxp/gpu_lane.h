// Resources of a lane of the factorisation on its GPU, and their sizes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/lu/gpu_lanes.h"
#include "programs/hpl_mxp/gpu_engine.h"

namespace mxp {

using tenken::cuda::DeviceArray;
inline std::size_t size(std::int64_t count) {
    return static_cast<std::size_t>(count);
}

inline std::int64_t padded(std::int64_t n) {
    return (n + gpu_tile - 1) / gpu_tile * gpu_tile;
}

/// Columns at a distance of a large power of two would share memory channels; tensor cores require
/// 128 bytes.
inline std::int64_t leading(std::int64_t rows) {
    return rows + 32;
}

inline unsigned blocks_for(std::int64_t count, std::int64_t each) {
    return static_cast<unsigned>((count + each - 1) / each);
}

struct LaneParts : lu::GpuLane {
    LaneParts(Priority priority, std::int64_t temporary_floats, std::int64_t low_numbers)
        : GpuLane(priority), temporary(size(temporary_floats)), low(size(low_numbers)) {}

    DeviceArray<float> temporary;     ///< products with an inverted triangle
    DeviceArray<unsigned short> low;  ///< rows of U, scaled and rounded
};

/// Sizes of the engines of one problem, also used for allocation.
struct Sizes {
    Sizes(std::int64_t n, std::int64_t nb, std::int64_t local_columns)
        : rows(padded(n)),
          ld(leading(rows)),
          a(ld * local_columns),
          inverses(local_columns * gpu_tile),
          slot_low(rows * nb),
          slot_bytes(2 * slot_low + 4 * nb * gpu_tile),
          temporary_update(gpu_tile * std::max<std::int64_t>(local_columns, 1)),
          temporary_panel(gpu_tile * std::max(rows, nb)),
          low_update(nb * std::max<std::int64_t>(local_columns, 1)),
          low_panel(nb * nb) {}
    std::int64_t rows, ld, a, inverses, slot_low, slot_bytes, temporary_update, temporary_panel, low_update,
        low_panel;
};

}  // namespace mxp
