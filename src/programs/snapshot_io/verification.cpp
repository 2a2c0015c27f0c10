// The verification of snapshot_io: written data is read back by another method, and data that was read is
// compared in place.
#include "catalogue/snapshot_io.h"
#include "lib/file_io/check_file.h"
#include "programs/snapshot_io/snapshot_io.h"

namespace snapshot_io {

void SnapshotIo::verify_file(MemorySpace& space, const SnapshotConfig& config, const std::string& path,
                             const std::vector<Segment>& list) {
    File file(path, File::Mode::modify, false);
    if (run_->fault == tenken::Fault::element && !fault_made_) {
        file_io::flip_bit(file, list[0].offset + list[0].bytes - 1);
    }
    fault_made_ = true;
    for (int d = 0; d < file_io::datasets; ++d) {
        const file_io::DatasetWords expected = {content_, config.layout, d};
        const std::size_t i = static_cast<std::size_t>(d);
        const file_io::Mismatch mismatch =
            file_io::compare_file(file, list[i].offset, list[i].bytes / 4, expected);
        add(file_io::check_of(mismatch, catalogue::words(), path, list[i].offset, mismatch.first), space,
            config, datasets_of(config.layout)[d].name);
    }
}

void SnapshotIo::verify_arrays(MemorySpace& space, const SnapshotConfig& config,
                               const std::vector<Segment>& list) {
    for (int a = 0; a < file_io::arrays; ++a) {
        const file_io::Mismatch mismatch =
            space.compare(arrays_.at[a], particles_ * file_io::array_words[a], content_.words(a));
        const file_io::WordAt at = place_of(config.layout, a, mismatch.count > 0 ? mismatch.first : 0);
        add(file_io::check_of(mismatch, catalogue::words(), source(config.layout),
                              list[static_cast<std::size_t>(at.array)].offset, at.word),
            space, config, datasets_of(Layout::asis)[a].name);
    }
}

void SnapshotIo::add(tenken::Check check, MemorySpace& space, const SnapshotConfig& config,
                     const std::string& dataset) {
    check.subject = space.subject();
    check.at = {{"metric", tenken::Json(config.write ? "write" : "read")},
                {"layout", tenken::Json(name_of(config.layout))},
                {"method", tenken::Json(config.method)},
                {"particles", tenken::Json(particles_)},
                {"dataset", tenken::Json(dataset)}};
    run_->document.add(check);
}

}  // namespace snapshot_io
