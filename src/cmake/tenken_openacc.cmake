# Flags of OpenACC, which back end a compiler has, and what that back end requires.
if(CMAKE_CXX_COMPILER_ID MATCHES "^(NVHPC|PGI)$")
  set(TENKEN_OPENACC_FLAGS -acc CACHE STRING "flags that turn OpenACC on")
else()
  # gcc uses an offload back end that is installed; without one, the loops run on the host.
  set(TENKEN_OPENACC_FLAGS -fopenacc CACHE STRING "flags that turn OpenACC on")
endif()
# gcc's back end compiles either OpenACC or OpenMP, and its table of kernels is not position-independent. Without a
# back end both remain on: OpenMP then divides the loops among the cores.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  include(CheckCXXSourceCompiles)
  set(tenken_openacc_loop "
    int main(int count, char**) {
    #pragma acc parallel loop copy(count)
      for (int i = 0; i < 8; ++i) count += i;
      return count;
    }")
  list(JOIN TENKEN_OPENACC_FLAGS " " CMAKE_REQUIRED_FLAGS)
  string(PREPEND CMAKE_REQUIRED_FLAGS "-fopenmp ")
  unset(TENKEN_OPENACC_WITH_OPENMP CACHE)  # the back end may have been installed since
  check_cxx_source_compiles("${tenken_openacc_loop}" TENKEN_OPENACC_WITH_OPENMP)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT TENKEN_OPENACC_WITH_OPENMP)
    set(TENKEN_OPENACC_COMPILE -fno-openmp -Wno-unknown-pragmas -fno-stack-protector)
    set(TENKEN_OPENACC_LINK -no-pie)
    # Ubuntu's gcc turns on a protection that the back end's compiler refuses; gcc 7 does not know it.
    include(CheckCXXCompilerFlag)
    check_cxx_compiler_flag(-fcf-protection=none TENKEN_OPENACC_WITH_CF_PROTECTION)
    if(TENKEN_OPENACC_WITH_CF_PROTECTION)
      list(APPEND TENKEN_OPENACC_COMPILE -fcf-protection=none)
      list(APPEND TENKEN_OPENACC_LINK -fcf-protection=none)
    endif()
    # The back end's assembler has its output checked by the ptxas on PATH, if there is one. That of CUDA 13 refuses
    # GPUs older than sm_75, among them gcc's default: the oldest target that it accepts is used. If it accepts none, the
    # loops run on the host, as without a back end.
    foreach(target default sm_53 sm_70 sm_75 sm_80 none)
      set(tenken_openacc_target "")
      if(target STREQUAL "none")
        set(tenken_openacc_target -foffload=disable)
      elseif(NOT target STREQUAL "default")
        set(tenken_openacc_target -foffload-options=nvptx-none=-misa=${target})
      endif()
      set(CMAKE_REQUIRED_FLAGS ${TENKEN_OPENACC_FLAGS} ${TENKEN_OPENACC_COMPILE} ${TENKEN_OPENACC_LINK}
                               ${tenken_openacc_target})
      list(JOIN CMAKE_REQUIRED_FLAGS " " CMAKE_REQUIRED_FLAGS)
      unset(TENKEN_OPENACC_LINKS_FOR_${target} CACHE)  # another ptxas may be on PATH by now
      check_cxx_source_compiles("${tenken_openacc_loop}" TENKEN_OPENACC_LINKS_FOR_${target})
      unset(CMAKE_REQUIRED_FLAGS)
      if(TENKEN_OPENACC_LINKS_FOR_${target})
        list(APPEND TENKEN_OPENACC_LINK ${tenken_openacc_target})
        set(tenken_openacc_links TRUE)
        break()
      endif()
    endforeach()
    if(NOT tenken_openacc_links)
      message(FATAL_ERROR "${CMAKE_CXX_COMPILER} does not link with ${TENKEN_OPENACC_FLAGS}, neither with OpenMP nor without: "
        "take openacc out of the features of its environment, or choose another compiler (CXX in the tests)")
    endif()
  endif()
endif()
