# CUDA: compiler, architectures, warnings. Included where TENKEN_CUDA is on.

# The version is needed before CMake knows the compiler, because the architectures depend on it.
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER nvcc)
  if(DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER $ENV{CUDACXX})
  endif()
endif()
# System files name the compiler (`cuda: nvcc`); root's PATH often has the folder of the toolkit, a user's does not.
if(NOT CMAKE_CUDA_COMPILER MATCHES "/")
  find_program(TENKEN_NVCC ${CMAKE_CUDA_COMPILER}
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(TENKEN_NVCC)
  if(NOT TENKEN_NVCC)
    message(FATAL_ERROR "TENKEN_CUDA=ON, but there is no ${CMAKE_CUDA_COMPILER} on PATH, in CUDA_HOME/bin, "
                        "CUDA_PATH/bin or /usr/local/cuda/bin; load a module, set CUDA_HOME, or give "
                        "-DCMAKE_CUDA_COMPILER=... (in a system file: `modules:` or `cuda:` of the environment)")
  endif()
  set(CMAKE_CUDA_COMPILER ${TENKEN_NVCC} CACHE FILEPATH "CUDA compiler" FORCE)
endif()
execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version
  RESULT_VARIABLE nvcc_ended OUTPUT_VARIABLE nvcc_says ERROR_VARIABLE nvcc_says)
if(NOT nvcc_says MATCHES "release ([0-9]+)\\.([0-9]+)")
  message(FATAL_ERROR "${CMAKE_CUDA_COMPILER} --version reports no version (exit status ${nvcc_ended}): "
                      "${nvcc_says}")
endif()
set(nvcc_version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})

# Architectures: as given; else those of the GPUs that are here; else what suits the compiler, with code for
# later GPUs to be made by the driver.
if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    RESULT_VARIABLE smi_failed OUTPUT_VARIABLE capabilities ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(found)
  if(NOT smi_failed AND capabilities MATCHES "^[0-9]+\\.[0-9]+")
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" found "${capabilities}")
    string(REPLACE "." "" found "${found}")
    list(REMOVE_DUPLICATES found)
    list(SORT found)
  elseif(nvcc_version VERSION_GREATER_EQUAL 13.0)
    set(found 80-real 90-real 100)
  elseif(nvcc_version VERSION_GREATER_EQUAL 11.8)
    set(found 60-real 70-real 80-real 90)
  elseif(nvcc_version VERSION_GREATER_EQUAL 11.0)
    set(found 60-real 70-real 80)
  else()
    set(found 53-real 60-real 62-real 70-real 72)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${found} CACHE STRING "GPU architectures to compile for")
endif()

enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
# With another CUDA on the machine, its libraries may be found first.
if(NOT CUDAToolkit_VERSION VERSION_GREATER_EQUAL "${nvcc_version}" OR
   NOT CUDAToolkit_VERSION VERSION_LESS "${nvcc_version}.9999")
  message(FATAL_ERROR "nvcc is ${nvcc_version} but the CUDA libraries found are ${CUDAToolkit_VERSION} "
                      "(${CUDAToolkit_LIBRARY_DIR}); set CUDA_HOME or CUDAToolkit_ROOT")
endif()
message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
string(REPLACE ";" "," TENKEN_CUDA_ARCHITECTURES_TEXT "${CMAKE_CUDA_ARCHITECTURES}")

# The static runtime, so that a program runs where no toolkit is. Toolkits put together from wheels may have a
# linker script to the shared one in its place; programs then get its location.
set(TENKEN_CUDART CUDA::cudart_static)
file(READ ${CUDA_cudart_static_LIBRARY} magic LIMIT 8)
if(NOT magic MATCHES "^!<arch>")
  set(TENKEN_CUDART CUDA::cudart)
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
endif()

set(CMAKE_CUDA_STANDARD 14)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(TENKEN_CUDA_OPTIMIZATION "-O3" CACHE STRING "how nvcc optimizes")
set(CMAKE_CUDA_FLAGS_RELEASE "${TENKEN_CUDA_OPTIMIZATION}")
set(cuda_flags "SHELL:-Xcompiler=-Wall,-Wextra")
if(OpenMP_CXX_FOUND)
  # Host templates that contain OpenMP must mean the same in every source file; otherwise linking picks either.
  list(APPEND cuda_flags "SHELL:-Xcompiler=${OpenMP_CXX_FLAGS}")
else()
  list(APPEND cuda_flags "SHELL:-Xcompiler=-Wno-unknown-pragmas")
endif()
if(TENKEN_WERROR)
  list(APPEND cuda_flags "SHELL:-Werror all-warnings" "SHELL:-Xcompiler=-Werror")
endif()
target_compile_options(tenken_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:${cuda_flags}>")
