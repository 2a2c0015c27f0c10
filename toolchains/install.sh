#!/bin/sh
# Creates the virtual environment of Tenken from this kit, without network and without root.
# usage: kit/install.sh [VENV]      (from anywhere; VENV: default .venv in the checkout that contains the kit)
# PYTHON=/path/to/python3 chooses the Python; TENKEN_CACHE the folder for a compiler in the kit.
set -eu

kit=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$kit")
venv=${1:-$root/.venv}
fail() {
    echo "install.sh: $*" >&2
    exit 1
}
. "$kit/settings"

[ -f "$root/pyproject.toml" ] || fail "$root is no checkout of Tenken: the kit belongs into its top folder"
[ "$(uname -m)" = "$KIT_ARCH" ] ||
    fail "this kit is for $KIT_ARCH, the machine is $(uname -m); make one with KIT_ARCH=$(uname -m)"

# Wheels are built for one version of Python.
version='import sys; print("%d.%d" % sys.version_info[:2])'
python=
seen=
for candidate in "${PYTHON:-}" python3 "python$KIT_PYTHON" "/usr/bin/python$KIT_PYTHON" /usr/bin/python3; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    found=$("$candidate" -c "$version" 2>/dev/null) || continue
    seen="$seen $candidate=$found"
    if [ "$found" = "$KIT_PYTHON" ]; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] ||
    fail "this kit is for Python $KIT_PYTHON, found:${seen:- none}; set PYTHON, or make one with KIT_PYTHON=3.N"

"$python" -I "$root/tenken/paths.py" || exit 1

"$python" - "$kit" <<'CHECK' || fail "the kit is damaged: copy it again"
import hashlib, pathlib, sys
kit = pathlib.Path(sys.argv[1])
bad = []
for line in (kit / "MANIFEST").read_text().splitlines():
    digest, size, name = line.split(" ", 2)
    path = kit / name
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        bad.append(name)
if bad:
    sys.exit("install.sh: missing or changed: " + ", ".join(bad))
CHECK

if [ -e "$venv" ]; then
    found=$("$venv/bin/python" -c "$version" 2>/dev/null) || found=nothing
    [ "$found" = "$KIT_PYTHON" ] || fail "$venv exists and holds $found in place of Python $KIT_PYTHON; remove it"
else
    # pip comes from the kit, so a Python without ensurepip (Debian without python3-venv) is sufficient.
    "$python" -m venv --without-pip "$venv" || fail "$python cannot make a virtual environment at $venv"
fi
venv=$(cd "$venv" && pwd)

# -I and --isolated: neither PYTHONPATH nor the user's pip settings affect the installation.
pip() {
    "$venv/bin/python" -I "$pip_program" --isolated install --quiet --disable-pip-version-check --no-cache-dir \
        --root-user-action=ignore --no-index --no-deps "$@"
}
for pip_wheel in "$kit"/wheels/pip-*.whl; do pip_program=$pip_wheel/pip; done
pip "$kit"/wheels/*.whl
pip --no-build-isolation --editable "$root"
"$venv/bin/python" "$root/tenken/venv.py" >/dev/null
# a copy without its history still states its revision in every document
git -C "$root" describe --always >/dev/null 2>&1 || cp "$kit/REVISION" "$root/REVISION"

cd "$root"
"$venv/bin/python" -m toolchains.mpi "$venv" --kit "$kit" >/dev/null || exit 1

if [ -f "$kit-nvshmem/nvshmem.zip" ]; then
    rm -rf "$venv/nvshmem" "$venv/nvshmem.half"
    "$venv/bin/python" -m zipfile -e "$kit-nvshmem/nvshmem.zip" "$venv/nvshmem.half"
    mv "$venv/nvshmem.half/nvidia/nvshmem" "$venv/nvshmem"
    rm -rf "$venv/nvshmem.half"
    ln -s libnvshmem_host.so.3 "$venv/nvshmem/lib/libnvshmem_host.so"
    echo "NVSHMEM: export NVSHMEM_HOME=$venv/nvshmem"
fi

if [ -n "$KIT_COMPONENTS" ]; then
    home=$("$venv/bin/python" -m toolchains.cuda_home "$KIT_CUDA_RELEASE" \
        --components "$KIT_COMPONENTS" --wheels "$kit/cuda") || exit 1
    echo "CUDA $KIT_CUDA_RELEASE: export CUDA_HOME=$home"
fi
# make considers the environment complete, and does not look for packages on the network.
touch "$venv/.stamp"
echo "Tenken is installed: . $venv/bin/activate"
