// Snapshots of an N-body simulation, written to and read from HDF5 files out of the memory of a GPU or the
// host.
#include "programs/snapshot_io/snapshot_io.h"

#include "lib/file_io/gds_probe.h"

int main(int argc, char** argv) {
    int code = 0;
    if (file_io::is_gds_probe(argc, argv, code)) return code;
    snapshot_io::SnapshotIo program;
    return tenken::run_program(program, argc, argv);
}
