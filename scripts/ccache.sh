# . ccache.sh TREE CXX ROOT: discard a configuration made with other compilers, and use ccache for a build if it is
# installed and works. Sets tenken_launcher (empty: none) and tenken_cuda_launcher. For bash. If
# CMAKE_CXX_COMPILER_LAUNCHER or CMAKE_CUDA_COMPILER_LAUNCHER is set (even to nothing), the user decides, and all
# settings of ccache are the user's.

# CMake would build once more with the former compiler, or for good if the new one has the same name (another module)
if [ "$(command -v "$2" nvcc)" != "$(cat "$1/.compilers" 2>/dev/null)" ]; then
    rm -rf "$1/CMakeCache.txt" "$1/CMakeFiles"
    command -v "$2" nvcc > "$1/.compilers" || :
fi
tenken_launcher=${CMAKE_CXX_COMPILER_LAUNCHER-}
tenken_cuda_launcher=${CMAKE_CUDA_COMPILER_LAUNCHER-}
# ccache recognises these compilers; it would have to guess others
case ${CMAKE_CXX_COMPILER_LAUNCHER-ask}:${2##*/} in
ask:g++* | ask:clang++* | ask:c++)
    # code is generated for this exact CPU, while caches are shared by nodes of several kinds
    { uname -m; sed -n '/^processor/!p;/^$/q' /proc/cpuinfo | grep -E '^(model name|flags|Features|CPU [a-z]+)'; } \
        > "$1/.cpu" 2>/dev/null || :
    export CCACHE_EXTRAFILES="$1/.cpu" CCACHE_BASEDIR="${CCACHE_BASEDIR-$3}" CCACHE_NOHASHDIR=1
    # a cache in a read-only or full home would make each compilation fail
    echo 'int tenken_tried;' > "$1/.tried.cpp"
    if ccache "$2" -c "$1/.tried.cpp" -o "$1/.tried.o" > /dev/null 2>&1; then
        # not for nvcc: ccache compares what the GPU's compiler sees, and takes an object with older code for the host
        tenken_launcher=$(command -v ccache)
    fi
    rm -f "$1/.tried.cpp" "$1/.tried.o"
    ;;
esac
