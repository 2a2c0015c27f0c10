#!/bin/sh
# tmpdir.sh: sourced before pip, compilers and MPI, which fill TMPDIR: if that cannot be written or is nearly full, a
# folder in the checkout replaces it.
tenken_tmp=${TMPDIR:-/tmp}
tenken_free=$(df -Pk "$tenken_tmp" 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ ! -w "$tenken_tmp" ] || [ "${tenken_free:-0}" -lt 262144 ]; then
    mkdir -p .cache/tmp
    TMPDIR=$PWD/.cache/tmp
    export TMPDIR
    echo "tenken: $tenken_tmp cannot be written or has less than 256 MiB: temporary files go to .cache/tmp" >&2
fi
