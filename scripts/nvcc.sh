#!/bin/sh
# nvcc.sh: where this machine has an NVIDIA GPU and no CUDA compiler, bring one from PyPI into .cache and print its folder.
# The release follows the driver: 13.0 for drivers of CUDA 13, 12.4 for older ones. Prints nothing where none is needed.
nvidia-smi -L 2>/dev/null | grep -q '^GPU ' || exit 0
command -v nvcc >/dev/null 2>&1 && exit 0
for home in "$CUDA_HOME" "$CUDA_PATH" /usr/local/cuda; do
    [ -n "$home" ] && [ -x "$home/bin/nvcc" ] && exit 0
done
able=$(nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9]*\).*/\1/p' | head -n 1)
release=12.4
[ "${able:-0}" -ge 13 ] && release=13.0
echo "tenken: a GPU and no nvcc: bringing CUDA $release into .cache (docs/toolchains.md)" >&2
exec python -m toolchains.cuda_home "$release" --components all
