#!/bin/sh
# Renew the lock files of this folder from pyproject.toml and the .in files beside them; needs uv and network.
# usage: toolchains/lock.sh
set -eu
cd "$(dirname "$0")"

# The oldest Python that is served; markers in the lock tell the versions apart.
compile() {
    output=$1
    shift
    uv pip compile --quiet --generate-hashes --no-header --no-annotate --universal --python-version 3.10 \
        --output-file "$output" "$@"
}

for name in cuda-12.4 cuda-13.0 kit-mpi; do
    compile "$name.lock" --no-deps "$name.in"
done
# polars (50 MB) serves ReFrame's own results database alone, which Tenken does not use.
leave_out="--no-emit-package polars --no-emit-package polars-runtime-32"
# shellcheck disable=SC2086  # a list of options
compile kit-run.lock $leave_out ../pyproject.toml kit-run.in
for extra in reports build; do
    # shellcheck disable=SC2086
    compile "kit-$extra.lock" $leave_out --extra "$extra" --constraint kit-run.lock ../pyproject.toml
done
