#!/bin/sh
# install.sh VENV LOCK [.]: install the packages of LOCK into VENV, and with '.' this checkout, editable. By uv, which
# needs a fifth of pip's time, unless pip has settings that uv does not read (an index, a proxy); by pip where uv fails.
set -e
. scripts/tmpdir.sh
# pip takes a package on PYTHONPATH for one of the environment; the others name another place to install into
unset PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX
export PIP_USER=0
venv=$1 lock=$2 here=$3
by_uv() {
    ! "$venv/bin/pip" config list 2>/dev/null | grep -qE 'index|proxy|client|trusted|constraint|binary' || return
    if [ ! -x "$venv/bin/uv" ]; then
        sed -n '/^uv==/,/[^\\]$/p' requirements-dev.lock >"$venv/uv.lock"
        "$venv/bin/pip" install -q --no-compile --only-binary :all: --require-hashes -r "$venv/uv.lock" || return
    fi
    uv="$venv/bin/uv pip install -q --no-config --no-cache --python $venv/bin/python"
    $uv --require-hashes -r "$lock" && { [ -z "$here" ] || $uv --no-deps -e "$here"; }
}
by_uv 2>"$venv/uv.log" && exit
"$venv/bin/pip" install -q --no-compile --require-hashes -r "$lock"
[ -z "$here" ] || "$venv/bin/pip" install -q --no-deps -e "$here"
