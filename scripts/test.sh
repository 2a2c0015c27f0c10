#!/bin/sh
# test.sh [PYTEST OPTIONS]                  what `make test` runs: `make dev`, linters, then all tests but those of a part
# test.sh --parts 'NAMES' [PYTEST OPTIONS]  what `make test-all` runs: the tests of all parts, or of those named
set -e
# Several builds of the same sources are tested. With ccache each source is compiled once for all identical builds;
# without it (no root, no Debian) the tests do the same and take longer. CCACHE_DIR may name a cache that outlives a
# clone.
if command -v ccache >/dev/null || sh scripts/debian.sh ccache >/dev/null; then
    CCACHE_DIR=${CCACHE_DIR:-$PWD/.cache/ccache}
    # Builds of a clone and of this checkout differ in the folder, and in whether warnings are errors: ccache replays a
    # warning with the object, and tests/support/builds.py refuses every one.
    CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_IGNOREOPTIONS=-Werror
    # No two builds share code for GPUs, which it would only preprocess once more.
    CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=
    export CCACHE_DIR CCACHE_BASEDIR CCACHE_NOHASHDIR CCACHE_IGNOREOPTIONS
    export CMAKE_CXX_COMPILER_LAUNCHER CMAKE_CUDA_COMPILER_LAUNCHER
fi
# Images and CI may forbid writing bytecode, and every process would compile the same Python again.
unset PYTHONDONTWRITEBYTECODE
if [ "$1" = --parts ]; then
    parts=$(echo "$2" | sed 's/^ *//; s/ *$//; s/  */ or /g')
    shift 2
    # five workers on two cores: two have a Slurm each and mostly wait, as do make run and the containers
    # shellcheck disable=SC2046
    exec pytest -n "${TENKEN_TEST_WORKERS:-5}" --dist loadgroup -m "${parts:-part}" "$@" \
        $(python -m tests.support.parts --files)
fi
# The build uses the second core while pip and the linters, which are quick and come first, use one.
python -m tests.support.builds &
build=$!
make -s dev && sh scripts/lint.sh || { kill $build; exit 1; }
# pytest rewrites each file's assertions once and keeps them: workers that start together would each do it
pytest --collect-only -q >/dev/null || :
# these tests seldom wait, and each worker imports all of them
exec pytest -n "${TENKEN_TEST_WORKERS:-3}" --dist loadgroup --no-loadscope-reorder -m "not part" "$@"
