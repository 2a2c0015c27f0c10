# . ccache.sh TREE CXX ROOT: use ccache for a build where it is there and works. Sets tenken_launcher (empty: none)
# and tenken_cuda_launcher. For bash.
# CMAKE_CXX_COMPILER_LAUNCHER and CMAKE_CUDA_COMPILER_LAUNCHER, where they are set (to nothing,
# too), are the user's word, and then all settings of ccache are the user's.
tenken_launcher=${CMAKE_CXX_COMPILER_LAUNCHER-}
tenken_cuda_launcher=${CMAKE_CUDA_COMPILER_LAUNCHER-}
# it knows these compilers; of others it would have to guess
case ${CMAKE_CXX_COMPILER_LAUNCHER-ask}:${2##*/} in
ask:g++* | ask:clang++* | ask:c++)
    # code is made for the very CPU: caches are shared by nodes of several kinds
    { uname -m; sed -n '/^processor/!p;/^$/q' /proc/cpuinfo | grep -E '^(model name|flags|Features|CPU [a-z]+)'; } \
        > "$1/.cpu" 2>/dev/null || :
    export CCACHE_EXTRAFILES="$1/.cpu" CCACHE_BASEDIR="${CCACHE_BASEDIR-$3}" CCACHE_NOHASHDIR=1
    # a cache in a home that is read-only or full would fail each compilation
    echo 'int tenken_tried;' > "$1/.tried.cpp"
    if ccache "$2" -c "$1/.tried.cpp" -o "$1/.tried.o" > /dev/null 2>&1; then
        tenken_launcher=$(command -v ccache)
        tenken_cuda_launcher=${CMAKE_CUDA_COMPILER_LAUNCHER-$tenken_launcher}
    fi
    rm -f "$1/.tried.cpp" "$1/.tried.o"
    ;;
esac
