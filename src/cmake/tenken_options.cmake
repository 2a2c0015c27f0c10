# What every program is compiled with, gathered in the interface target tenken_options.
include(CheckCXXCompilerFlag)

add_library(tenken_options INTERFACE)
target_include_directories(tenken_options INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})

set(cxx_flags)
if(CMAKE_CXX_COMPILER_ID MATCHES "GNU|Clang")
  list(APPEND cxx_flags -Wall -Wextra -Wpedantic)
  if(TENKEN_WERROR)
    list(APPEND cxx_flags -Werror)
  endif()
elseif(TENKEN_WERROR)
  list(APPEND cxx_flags -Werror)
endif()

if(TENKEN_NATIVE)
  # Spelled differently by GCC on POWER and by NVIDIA's compiler. On Arm, -march tunes for a generic core.
  set(flags_of_this_processor -march=native -mcpu=native -tp=native)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(PREPEND flags_of_this_processor -mcpu=native)
  endif()
  foreach(flag ${flags_of_this_processor})
    string(MAKE_C_IDENTIFIER "TENKEN_HAS${flag}" has_flag)
    check_cxx_compiler_flag(${flag} ${has_flag})
    if(${has_flag})
      list(APPEND cxx_flags ${flag})
      break()
    endif()
  endforeach()
endif()
target_compile_options(tenken_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${cxx_flags}>")

find_package(OpenMP COMPONENTS CXX)
if(OpenMP_CXX_FOUND)
  target_link_libraries(tenken_options INTERFACE OpenMP::OpenMP_CXX)
else()
  message(WARNING "no OpenMP: host back ends will use one thread")
  target_compile_options(tenken_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>)
endif()

if(TENKEN_OPENACC)
  include(tenken_openacc)
endif()

if(TENKEN_CUDA)
  include(tenken_cuda)
endif()

if(TENKEN_MPI)
  include(tenken_mpi)
  find_package(MPI REQUIRED COMPONENTS CXX)
  # All programs are linked with Threads: apart from this option, a source without MPI gives the same object in both
  # builds.
  get_target_property(mpi_options MPI::MPI_CXX INTERFACE_COMPILE_OPTIONS)
  if(mpi_options)
    string(REGEX REPLACE "[^;]*-pthread" "" mpi_options "${mpi_options}")
    set_target_properties(MPI::MPI_CXX PROPERTIES INTERFACE_COMPILE_OPTIONS "${mpi_options}")
  endif()
endif()

# What the result document states about the build.
string(TOUPPER "${CMAKE_BUILD_TYPE}" upper_build_type)
string(STRIP "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${upper_build_type}}" TENKEN_BUILD_FLAGS)
string(REPLACE ";" " " joined_flags "${cxx_flags} ${OpenMP_CXX_FLAGS}")
set(TENKEN_BUILD_FLAGS "${TENKEN_BUILD_FLAGS} ${joined_flags}")
configure_file(${CMAKE_CURRENT_LIST_DIR}/tenken_build.h.in ${CMAKE_BINARY_DIR}/generated/tenken_build.h @ONLY)
