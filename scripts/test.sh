#!/bin/sh
# test.sh [PYTEST OPTIONS]: linters first (they are quick), then all tests.
set -e
sh scripts/lint.sh
# Several builds of the same sources are tested. With ccache a source is compiled once for all that compile it alike;
# without (no root, no Debian) the tests do the same and take longer. CCACHE_DIR may name a cache that outlives a clone.
if command -v ccache >/dev/null || sh scripts/debian.sh ccache >/dev/null; then
    CCACHE_DIR=${CCACHE_DIR:-$PWD/.cache/ccache}
    # The builds of a clone and of this checkout differ in the folder, and in whether a warning is an error: a warning
    # comes out of the cache with the object, and tests/programs/conftest.py refuses every one.
    CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_IGNOREOPTIONS=-Werror
    CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
    export CCACHE_DIR CCACHE_BASEDIR CCACHE_NOHASHDIR CCACHE_IGNOREOPTIONS
    export CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CUDA_COMPILER_LAUNCHER
fi
# Every process would compile the same Python again where images and CI forbid to keep what is compiled.
unset PYTHONDONTWRITEBYTECODE
# four workers on two cores: tests on Slurm, make run and the containers mostly wait (three: 19.6 min, four: 18.6)
exec pytest -n "${TENKEN_TEST_WORKERS:-4}" --dist loadgroup "$@"
