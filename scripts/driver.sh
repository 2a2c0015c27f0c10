#!/bin/sh
# driver.sh [NVCC]: refuse a CUDA toolkit that the driver of this machine cannot run, before anything is built. From
# CUDA 11 on, a driver runs every toolkit of its own major version (minor version compatibility, CUDA documentation);
# before that it runs toolkits up to its own version. Silent if there is no driver (a login node) or no nvcc.
nvcc=${1:-nvcc}
# as the build finds it (src/cmake/tenken_cuda.cmake)
for home in "$CUDA_HOME" "$CUDA_PATH" /usr/local/cuda; do
    command -v "$nvcc" >/dev/null 2>&1 && break
    [ -z "$home" ] || [ ! -x "$home/bin/${nvcc##*/}" ] || nvcc=$home/bin/${nvcc##*/}
done
command -v nvidia-smi >/dev/null 2>&1 && command -v "$nvcc" >/dev/null 2>&1 || exit 0
head=$(nvidia-smi 2>/dev/null) || exit 0
able=$(printf '%s\n' "$head" | sed -n 's/.*CUDA Version: *\([0-9]*\.[0-9]*\).*/\1/p' | head -n 1)
driver=$(printf '%s\n' "$head" | sed -n 's/.*Driver Version: *\([0-9.]*\).*/\1/p' | head -n 1)
toolkit=$("$nvcc" --version | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p')
[ -n "$able" ] && [ -n "$toolkit" ] || exit 0
refuse() {
    echo "tenken: driver $driver runs CUDA up to $able, the toolkit is CUDA $toolkit ($(command -v "$nvcc")):" \
        "load an older toolkit (CUDA $1) or update the driver" >&2
    exit 1
}
if [ "${toolkit%.*}" -gt "${able%.*}" ]; then refuse "${able%.*}.x"; fi
if [ "${able%.*}" -lt 11 ] && [ "${toolkit%.*}" -eq "${able%.*}" ] && [ "${toolkit#*.}" -gt "${able#*.}" ]; then
    refuse "up to $able"
fi
exit 0
