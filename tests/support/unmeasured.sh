#!/bin/sh
# CMAKE_CXX_COMPILER_LAUNCHER of the builds with CUDA, nothing of which is measured: sources for CUDA are not optimized.
# All others are objects of the host build, if ccache has kept them.
for source; do :; done
! grep -qE 'HAVE_CU|cuda' "$source" || set -- "$@" -O0
exec ${CCACHE_DIR:+ccache} "$@"
