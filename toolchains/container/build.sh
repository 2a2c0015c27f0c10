#!/bin/sh
# build.sh CUDA NATIVE: in a bare Debian, as root, from /opt/tenken: the toolchain from packages, then all programs into
# /opt/tenken/built. CUDA: 13.0, 12.4 or none. NATIVE: ON for the CPU that builds, else OFF.
set -eu
cuda=${1:-13.0}
native=${2:-OFF}
case $cuda in 13.0 | 12.4 | none) ;; *) echo "build.sh: CUDA is $cuda; allowed: 13.0, 12.4, none" >&2; exit 2 ;; esac
case $native in ON | OFF) ;; *) echo "build.sh: NATIVE is $native; allowed: ON, OFF" >&2; exit 2 ;; esac
home=$(cd "$(dirname "$0")/../.." && pwd)
cd "$home"

export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends \
    ca-certificates g++ git libopenmpi-dev make openmpi-bin python3 python3-venv util-linux
apt-get clean
rm -rf /var/lib/apt/lists/*

make venv
. .venv/bin/activate
set -- -DTENKEN_NATIVE="$native" -DTENKEN_OPENACC=ON -DTENKEN_MPI=ON
if [ "$cuda" != none ]; then
    CUDA_HOME=$(python -m toolchains.cuda_home "$cuda" --components all --home "$home/cuda")
    # every architecture of that toolkit that the suite supports
    case $cuda in 13.0) gpus="75;80;86;89;90;100;120" ;; *) gpus="60;70;75;80;86;89;90" ;; esac
    set -- "$@" -DTENKEN_CUDA=ON "-DCMAKE_CUDA_COMPILER=$CUDA_HOME/bin/nvcc" "-DCUDAToolkit_ROOT=$CUDA_HOME" \
        "-DCMAKE_LIBRARY_PATH=$CUDA_HOME/lib64;$CUDA_HOME/lib64/stubs" "-DCMAKE_CUDA_ARCHITECTURES=$gpus"
fi
cmake -G Ninja -S src -B /tmp/tenken-build -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=g++ "$@"
cmake --build /tmp/tenken-build
cmake --install /tmp/tenken-build --prefix "$home/built"
cp /tmp/tenken-build/generated/tenken_revision.h "$home/built/"
rm -rf /tmp/tenken-build
built/bin/daxpy --repetitions 3 --warmup-seconds 0
