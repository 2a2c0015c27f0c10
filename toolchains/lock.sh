#!/bin/sh
# Renew the lock files of this folder from the .in files next to them; needs uv and network.
# usage: toolchains/lock.sh
set -eu
cd "$(dirname "$0")"
for name in cuda-11.8 cuda-12.4 cuda-13.0 dali kit kvikio mpi4py; do
    uv pip compile --quiet --no-header --no-annotate --no-deps --universal --python-version 3.10 --generate-hashes \
        --output-file "$name.lock" "$name.in"
done
