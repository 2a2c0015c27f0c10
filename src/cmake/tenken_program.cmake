# tenken_program(NAME SOURCES ... [CUDA_SOURCES ...] [OPENACC_SOURCES ...] [MPI_SOURCES ...]
#                [LIBRARIES ...] [CUDA_LIBRARIES ...] [USES CUDA|MPI ...] [NEEDS CUDA|MPI ...])
#
# Defines the program NAME, built into bin/ and installed there. The sources of a back end are added only where
# its option is on (TENKEN_CUDA, TENKEN_OPENACC, TENKEN_MPI); the others then see TENKEN_HAVE_CUDA and so on.
# USES is for a program whose part for CUDA or MPI is all in lib/: it has no such source file.
# A program that is useless without a back end states NEEDS and is omitted if the option is off.
function(tenken_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" ""
    "SOURCES;CUDA_SOURCES;OPENACC_SOURCES;MPI_SOURCES;LIBRARIES;CUDA_LIBRARIES;USES;NEEDS")
  if(arg_UNPARSED_ARGUMENTS OR NOT (arg_SOURCES OR arg_CUDA_SOURCES))
    message(FATAL_ERROR "tenken_program(${name}): needs SOURCES; not understood: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  foreach(need IN LISTS arg_NEEDS)
    if(NOT TENKEN_${need})
      message(STATUS "${name}: left out, it needs TENKEN_${need}=ON")
      return()
    endif()
  endforeach()

  add_executable(${name} ${arg_SOURCES} ${TENKEN_CATALOGUE_SOURCES}/${name}.cpp)
  target_link_libraries(${name} PRIVATE tenken_common ${arg_LIBRARIES})
  foreach(backend CUDA OPENACC MPI)
    if(TENKEN_${backend} AND arg_${backend}_SOURCES)
      target_sources(${name} PRIVATE ${arg_${backend}_SOURCES})
      target_compile_definitions(${name} PRIVATE TENKEN_HAVE_${backend}=1)
    endif()
  endforeach()
  if(TENKEN_CUDA AND (arg_CUDA_SOURCES OR "CUDA" IN_LIST arg_NEEDS OR "CUDA" IN_LIST arg_USES))
    target_link_libraries(${name} PRIVATE tenken_common_cuda ${arg_CUDA_LIBRARIES})
    target_compile_definitions(${name} PRIVATE TENKEN_HAVE_CUDA=1)
  endif()
  if(TENKEN_MPI AND (arg_MPI_SOURCES OR "MPI" IN_LIST arg_NEEDS OR "MPI" IN_LIST arg_USES))
    target_link_libraries(${name} PRIVATE tenken_common_mpi)
    target_compile_definitions(${name} PRIVATE TENKEN_HAVE_MPI=1)
  endif()
  if(TENKEN_OPENACC AND arg_OPENACC_SOURCES)
    set_source_files_properties(${arg_OPENACC_SOURCES} PROPERTIES
      COMPILE_OPTIONS "${TENKEN_OPENACC_FLAGS};${TENKEN_OPENACC_COMPILE}")
    target_link_libraries(${name} PRIVATE ${TENKEN_OPENACC_FLAGS} ${TENKEN_OPENACC_LINK})
  endif()
  # a separate component: a run installs only the programs that it needs
  install(TARGETS ${name} RUNTIME DESTINATION bin COMPONENT ${name})
endfunction()
