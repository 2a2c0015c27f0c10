// The fastest method between memory and a file, by direction and size: a table for an application,
// or for the choice by a map that is judged here.
#include "programs/storage_map/storage_map.h"

#include "lib/file_io/gds_probe.h"

int main(int argc, char** argv) {
    int code = 0;
    if (file_io::is_gds_probe(argc, argv, code)) return code;
    storage_map::StorageMapProgram program;
    return tenken::run_program(program, argc, argv);
}
