// Snapshots of an N-body simulation, transferred between HDF5 files and the memory of a GPU or the
// host.
#include "programs/snapshot_io/snapshot_io.h"

#include "lib/file_io/gds_probe.h"

int main(int argc, char** argv) {
    int code = 0;
    if (file_io::is_gds_probe(argc, argv, code)) return code;
    snapshot_io::SnapshotIo program;
    return tenken::run_program(program, argc, argv);
}
