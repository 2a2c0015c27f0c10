#!/bin/sh
# mpi.sh: sourced inside the activated virtual environment before a run on this machine. If no MPI can build and start
# programs, installs one from PyPI that accepts device pointers (docs/toolchains.md) and enables it. A machine without a
# network continues without MPI. TENKEN_NO_MPI=1 omits it.
tenken_has_mpi() {
    command -v mpirun >/dev/null 2>&1 && echo '#include <mpi.h>' | mpicxx -E -x c++ - >/dev/null 2>&1
}
if [ -z "$TENKEN_NO_MPI" ] && ! tenken_has_mpi; then
    if [ ! -r "$VIRTUAL_ENV/bin/tenken-mpi.env" ]; then
        echo "tenken: no MPI here: bringing Open MPI and UCX into $VIRTUAL_ENV (docs/toolchains.md)" >&2
        able=$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9]*\).*/\1/p' | head -n 1)
        cuda=13
        [ "${able:-13}" -lt 13 ] && cuda=12
        python -m toolchains.mpi "$VIRTUAL_ENV" --cuda $cuda >/dev/null ||
            echo "tenken: MPI could not be brought: checks that need it do not apply" >&2
    fi
    [ -r "$VIRTUAL_ENV/bin/tenken-mpi.env" ] && . "$VIRTUAL_ENV/bin/tenken-mpi.env"
fi
