#!/bin/sh
# nvcc.sh: if this machine has an NVIDIA GPU and no CUDA compiler, installs one from PyPI into .cache and prints its
# folder. The release follows the driver: 13.0 for drivers of CUDA 13, 12.4 for older ones. Prints nothing if none is
# needed. If none can be installed it prints what would help and fails: a run without the GPUs must be requested with
# TENKEN_NO_CUDA=1.
[ -z "$TENKEN_NO_CUDA" ] || exit 0
nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || exit 0
command -v nvcc >/dev/null 2>&1 && exit 0
for home in "$CUDA_HOME" "$CUDA_PATH" /usr/local/cuda; do
    [ -n "$home" ] && [ -x "$home/bin/nvcc" ] && exit 0
done
able=$(nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9]*\).*/\1/p' | head -n 1)
release=12.4
[ "${able:-0}" -ge 13 ] && release=13.0
echo "tenken: a GPU and no nvcc: bringing CUDA $release into .cache (docs/toolchains.md)" >&2
python -m toolchains.cuda_home "$release" --components all && exit
echo "tenken: no CUDA compiler, and none could be brought: install a CUDA toolkit (nvcc; Debian's package" \
    "nvidia-cuda-toolkit), set CUDA_HOME to one, take a kit that holds it (docs/kit.md), or say TENKEN_NO_CUDA=1 to" \
    "run without the GPUs" >&2
exit 1
