// Which way between memory and a file is the fastest, by direction and size: the table that an application,
// or the choice by a map that is judged here, can go by.
#include "programs/storage_map/storage_map.h"

#include "lib/file_io/gds_probe.h"

int main(int argc, char** argv) {
    int code = 0;
    if (file_io::is_gds_probe(argc, argv, code)) return code;
    storage_map::StorageMapProgram program;
    return tenken::run_program(program, argc, argv);
}
